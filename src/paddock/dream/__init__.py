"""The dream as an environment: any trained world model of this lab, stepped like a simulator."""
