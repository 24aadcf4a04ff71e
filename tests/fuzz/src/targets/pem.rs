//! Certificates, keys and authorities.

use std::time::Duration;

use espalier_service_kit::{ClientTls, IdentityFiles, Role, ServerTls, TlsFiles};

use crate::folder::{File, Folder};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "pem",
    about: "A file is refused as certificate, key and authorities, or a service can be locked with it.",
    run: |bytes| {
        let folder = Folder::of(&[File { name: "all.pem", bytes }]);
        let path = folder.path().join("all.pem");
        let identity = IdentityFiles { cert: path.clone(), key: path.clone() };
        let files = |identity, authorities| TlsFiles { identity, authorities };
        within_a_runtime(|| {
            let own = files(Some(identity.clone()), None);
            let both = files(Some(identity), Some(path.clone()));
            let locked = [
                ServerTls::of_service(own, Role::Verifier, &[Role::Gateway]).map(drop),
                ServerTls::load(both).map(drop),
                ClientTls::load(files(None, Some(path))).map(drop),
            ];
            locked.iter().all(|made| made.as_ref().map_or_else(|refusal| refused(refusal), |()| true))
        })
    },
    seeds: || vec![include_bytes!("../../seeds/verifier.pem").to_vec()],
    tries: 600,
    memory_max: 1 << 20,
};

/// Whoever loads files follows them from then on, in a task, which ends with the runtime.
fn within_a_runtime(what: impl FnOnce() -> bool) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it takes no threads");
    let within = runtime.enter();
    let accepted = what();
    drop(within);
    runtime.shutdown_timeout(Duration::ZERO);
    accepted
}
