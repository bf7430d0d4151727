//! Worlds in virtual time: traces, devices, links and caches, driven by the machines of `policy`.
