"""What is called around the steps of monitored sessions."""
