//! `[endpoint]`: metrics, health and dashboard of the daemon over the network.

use super::super::keys::{address, optional, parsed, path, section};
use super::super::section::Section;
use std::net::SocketAddr;
use std::path::PathBuf;

section! {
    /// `[endpoint]`
    Endpoint {
        /// Address and port at which the daemon serves metrics, its health and a dashboard by HTTP. Without it there is
        /// no server.
        listen: Option<SocketAddr> = optional(parsed(address)), "127.0.0.1:9469" else None;
        /// A file with the token that each client must send ("Authorization: Bearer TOKEN"); others must not be able to read it.
        /// Needed for an address that is not loopback, and for the dashboard to show files and jobs.
        token_file: Option<PathBuf> = optional(path), "/etc/entrepot/endpoint.token" else None;
        /// A certificate, and its chain (PEM): then it is HTTPS.
        certificate: Option<PathBuf> = optional(path), "/etc/entrepot/endpoint.crt" else None;
        /// The key of the certificate (PEM); others must not be able to read it.
        certificate_key: Option<PathBuf> = optional(path), "/etc/entrepot/endpoint.key" else None;
    }
}

impl Endpoint {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> Endpoint {
        let endpoint = Endpoint::read(section);
        let others =
            ["token_file", "certificate", "certificate_key"].into_iter().find(|key| section.get(key).is_some());
        match (endpoint.listen, others) {
            (None, Some(key)) => {
                section.problem(key, "nothing listens", "Add `listen = \"127.0.0.1:9469\"`, or remove it");
            }
            (Some(address), _) if !address.ip().is_loopback() && endpoint.token_file.is_none() => section.problem(
                "listen",
                format!("every client that reaches {address} could watch the volume"),
                "Add `token_file`, or listen at 127.0.0.1",
            ),
            _ => {}
        }
        if endpoint.certificate.is_some() != endpoint.certificate_key.is_some() {
            let given = if endpoint.certificate.is_some() { "certificate" } else { "certificate_key" };
            section.problem(given, "a certificate and its key go together", "Give both, or none");
        }
        endpoint
    }
}
