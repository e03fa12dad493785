"""What trains and records agents on a scenario: episodes, datasets, models of other libraries."""
