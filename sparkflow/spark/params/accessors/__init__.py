"""The Params of the tables with their getters and setters, by topic; generated."""
