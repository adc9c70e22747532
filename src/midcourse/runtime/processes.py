"""Processes for plain functions that must be killable at once. Some are kept warm, so that a call need not wait.

What goes into a process and comes out of it is pickled: the function by its name, its arguments, its result or what it
raised. The other half of this module, what runs inside such a process, is ``process_body``.
"""



_IDLE_SECONDS = 10.0
