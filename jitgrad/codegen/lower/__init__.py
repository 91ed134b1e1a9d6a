"""Graph to program: what is stored, what stays in registers, what is one kernel."""
