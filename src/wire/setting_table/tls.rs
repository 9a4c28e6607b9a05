//! The settings that tell how the server encrypts.

use super::{Access, Kind, Setting, user};

const fn tls(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Setting {
    Setting { access: Access::Reload, ..user(name, default, kind, description) }
}

/// Without meaning for what does the encrypting here.
const fn none(name: &'static str) -> Setting {
    tls(name, "", Kind::Text, "Is not used: always empty.")
}

const VERSIONS: Kind = Kind::Choice(&["", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]);

pub(super) const SETTINGS: &[Setting] = &[
    tls("ssl", "off", Kind::Bool, "Whether connections can be encrypted."),
    none("ssl_ca_file"),
    tls("ssl_cert_file", "", Kind::Text, "The certificate; empty without TLS."),
    none("ssl_ciphers"),
    none("ssl_crl_dir"),
    none("ssl_crl_file"),
    none("ssl_dh_params_file"),
    none("ssl_ecdh_curve"),
    tls("ssl_key_file", "", Kind::Text, "The private key of the certificate; empty without TLS."),
    Setting { access: Access::Internal, ..tls("ssl_library", "rustls", Kind::Text, "What does the encrypting.") },
    tls(
        "ssl_max_protocol_version",
        "",
        VERSIONS,
        "The newest version of TLS that is spoken; empty is the newest known.",
    ),
    tls("ssl_min_protocol_version", "TLSv1.2", VERSIONS, "The oldest version of TLS that is spoken."),
    none("ssl_passphrase_command"),
    tls("ssl_passphrase_command_supports_reload", "off", Kind::Bool, "Is not used: there is no such command."),
    tls("ssl_prefer_server_ciphers", "off", Kind::Bool, "Whether the server's order of ciphers counts; always off."),
];
