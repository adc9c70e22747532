"""A model of the control protocol: every reachable state of one session within bounds, each rule a flag.

The model must be kept in step with src/midcourse/core/session.py and src/midcourse/runtime: who changes what a stop,
a resume or a recovery means there changes it here first. ``rules.IN_CODE`` says where each rule lives.
"""
