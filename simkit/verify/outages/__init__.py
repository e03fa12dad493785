"""What takes machines away: random failures drawn again, causes of changes, and stopped tasks."""
