//! EDGE: everything that speaks HTTP/2, gRPC and protobuf.
//!
//! A request comes in through [`listen`] and [`server`], [`router`] sends it on, through the
//! guard if it is one of the five volume calls, and [`plugin`] carries it over [`pool`] to the
//! plugin. What crosses is bytes; only a *copy* of a volume call is decoded ([`request`]).
//!
//! HTTP/2 is spoken with the h2 crate itself. hyper above it would hand each call through two more
//! tasks and a channel, which costs a third of what a small call costs in all.

pub mod body;
mod content;
mod deadline;
mod frame;
pub mod listen;
mod pipe;
pub mod plugin;
pub mod pool;
mod request;
pub mod router;
pub mod server;
pub mod status;

/// The largest header list taken and announced, in bytes.
///
/// Longhorn puts whole fsck and mkfs output into `grpc-message`, up to three times as long by
/// percent-encoding; grpc-go takes 16 MiB. A default like hyper's, 16 KiB, would turn a long error
/// into a reset.
pub const MAX_HEADER_LIST_BYTES: u32 = 16 << 20;

/// The flow-control window of one stream, in bytes: a message of 1 MiB travels without waiting.
/// Larger ones wait for the reader, as they should.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The flow-control window of a connection, in bytes. It holds the unread data of
/// [`pool::MAX_STREAMS`] streams, so that no caller who does not read stops another.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
