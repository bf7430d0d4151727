//! Key pairs of nodes, and TLS 1.3 that both ends know each other's key by (raw public keys, RFC 7250).
//!
//! A node makes its key pair when it joins, and publishes the public key in its lease, which only nodes of the volume
//! can write. No certificate and no authority is needed.

use crate::{Error, Result};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// Key pair of a node.
pub struct Keys {
    pair: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

/// Public key as text: its SubjectPublicKeyInfo in hexadecimal digits.
pub fn text(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn failed(error: impl fmt::Display) -> Error {
    Error::State(format!("no key can be made for connections between nodes: {error}"))
}

impl Keys {
    /// Makes a key pair.
    pub fn new() -> Result<Keys> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(failed)?;
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(made.as_ref())).map_err(failed)?;
        let public = key.public_key().ok_or_else(|| failed("it has no public half"))?.to_vec();
        let pair = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        Ok(Keys { pair, provider: Arc::new(provider::default_provider()) })
    }

    /// The public key.
    pub fn public(&self) -> String {
        text(&self.pair.cert[0])
    }

    /// TLS of a node that connects to the one with this public key.
    pub fn client(&self, other: &str) -> Result<ClientConfig> {
        let other = other.to_owned();
        let known = self.known(move |key| *key == other);
        let config = ClientConfig::builder_with_provider(self.provider.clone()).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(failed)?.dangerous().with_custom_certificate_verifier(known);
        let mut config =
            config.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.pair.clone())));
        config.enable_sni = false;
        Ok(config)
    }

    /// TLS of a node that lets in all whose public key `is_known` accepts.
    pub fn server(&self, is_known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Result<ServerConfig> {
        let config = ServerConfig::builder_with_provider(self.provider.clone()).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(failed)?.with_client_cert_verifier(self.known(is_known));
        let mut config = config.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.pair.clone())));
        // Each connection shows the key.
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn known(&self, is_known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Arc<Known> {
        let algorithms = self.provider.signature_verification_algorithms;
        Arc::new(Known { is_known: Box::new(is_known), algorithms })
    }
}

/// Accepts known public keys, at either end.
struct Known {
    is_known: Box<dyn Fn(&str) -> bool + Send + Sync>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

impl Known {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let is_known = (self.is_known)(&text(key));
        is_known.then_some(()).ok_or_else(|| CertificateError::UnknownIssuer.into())
    }
}

/// TLS 1.2 knows no raw public keys, and is not offered.
const TLS12: rustls::Error = rustls::Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered);

/// Checks of signatures, which are alike at both ends.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(TLS12)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
