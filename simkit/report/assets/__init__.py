"""Style and scripts of the report; `page` writes them into each file."""
