"""What people are asked and notified of: the inbox, alarms, webhooks, and who notifies them."""
