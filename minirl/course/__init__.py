"""Assignments: checks that explain, for students; and what turns one source into assignments, for instructors."""

MIME = "application/x-minirl-witness+json"  # of what a witness shows
