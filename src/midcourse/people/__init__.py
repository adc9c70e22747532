"""Ask and notify people: the inbox, alarms, webhooks, and the notifier."""
