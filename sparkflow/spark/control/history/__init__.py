"""What training was like, as values, tables and pictures. Knows no run."""
