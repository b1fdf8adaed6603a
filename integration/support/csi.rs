//! Client and server stubs of the CSI services, over the product's message types.

#![allow(dead_code, clippy::all, clippy::pedantic, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/stubs/csi.v1.rs"));
