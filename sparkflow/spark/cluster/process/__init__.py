"""A process of a task: started, spoken to, heard, ended, and started again."""
