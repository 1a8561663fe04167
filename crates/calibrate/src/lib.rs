//! Costs of clock, probes and toggles on this machine.
