"""Assignments: checks that explain, for students; and what turns one source into assignments, for instructors."""
