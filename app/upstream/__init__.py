"""The only place that speaks to model APIs."""
