"""IN: a Plan and a PreflightReport. OUT: a RunRecord. The only stage that starts campaigns."""
