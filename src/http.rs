//! Health, readiness, metrics and status over plain HTTP.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::errno::Errno;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::warn;

use crate::telemetry::Telemetry;

/// Between two tries to bind the port.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// How long a client may take to send the head of its request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How many clients are served at once; whoever comes then is turned away.
///
/// A probe and a scraper are two. All pods of the cluster can connect, and some runtimes give a
/// container 1024 descriptors: 256 leave kubelet's socket most of them. At double, half; at half,
/// fewer idle clients shut the probes out.
const MAX_CLIENTS: usize = 256;

/// The `Content-Type` of OpenMetrics text, version 1.0.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the endpoint tells about the calls under way.
pub trait Status: Send + Sync + 'static {
    fn status(&self) -> serde_json::Value;
}

/// Serves `address` for ever. A port that is taken is tried again: it stops no volume.
pub async fn serve(address: SocketAddr, telemetry: Arc<Telemetry>, status: Arc<dyn Status>) {
    let listener = bind(address).await;
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(BIND_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (telemetry, status) = (Arc::clone(&telemetry), Arc::clone(&status));
        let service = service_fn(move |request| {
            let response = respond(&request, &telemetry, &*status);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut server = Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE);
        let connection = server.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // How it ends is the client's affair.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn bind(mut address: SocketAddr) -> TcpListener {
    let mut said = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if lacks_ipv6(address, &error) => {
                address.set_ip(Ipv4Addr::UNSPECIFIED.into());
                continue;
            }
            Err(error) if !said => {
                let error: &dyn std::error::Error = &error;
                warn!(error, %address, "cannot serve health and metrics yet");
                said = true;
            }
            Err(_) => {}
        }
        sleep(BIND_PAUSE).await;
    }
}

/// Does "every address" mean those of IPv4 alone? Booted with `ipv6.disable=1` a kernel has no
/// such sockets, and a probe that is never answered would keep the whole pod from starting.
fn lacks_ipv6(address: SocketAddr, error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    address.ip() == Ipv6Addr::UNSPECIFIED && errno == Some(Errno::EAFNOSUPPORT)
}

fn respond(
    request: &Request<Incoming>,
    telemetry: &Telemetry,
    status: &dyn Status,
) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
    }
    match request.uri().path() {
        // The process lives: that is all kubelet may restart it for.
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => ready(telemetry),
        "/metrics" => match telemetry.exposition() {
            Ok(metrics) => typed(StatusCode::OK, OPEN_METRICS, metrics),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        "/status" => typed(StatusCode::OK, "application/json", status.status().to_string()),
        _ => text(StatusCode::NOT_FOUND, "/healthz /readyz /metrics /status\n"),
    }
}

fn ready(telemetry: &Telemetry) -> Response<Full<Bytes>> {
    let troubles = telemetry.troubles();
    if troubles.is_empty() {
        return text(StatusCode::OK, "ok\n");
    }
    let names: Vec<_> = troubles.iter().map(|trouble| trouble.name()).collect();
    text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {}\n", names.join(", ")))
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", text.to_owned())
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_every_address_on_a_kernel_without_ipv6_becomes_ipv4() {
        for (address, errno, lacks) in [
            ("[::]:9811", Errno::EAFNOSUPPORT, true),
            ("[::]:9811", Errno::EADDRINUSE, false),
            ("[::1]:9811", Errno::EAFNOSUPPORT, false),
            ("0.0.0.0:9811", Errno::EAFNOSUPPORT, false),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(lacks_ipv6(address.parse().unwrap(), &error), lacks, "{address} {errno}");
        }
    }
}
