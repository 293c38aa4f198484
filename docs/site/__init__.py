"""Builds docs/ into one folder of HTML (`make docs`), and reads its pages for the tests of links and commands."""
