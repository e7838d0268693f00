"""A scripted person who teaches a simulated walker in the console's page, from its pixels and text alone."""
