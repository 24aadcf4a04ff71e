//! Whether certificates hold, and are for those who show them.

use espalier_service_kit::{Inspected, Role, TlsError, chain};

use super::finding::Finding;

/// What shows a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// To other services.
    ToServices,
    /// To clients, at the gateway's door.
    ToClients,
}

impl Shown {
    fn check(self) -> &'static str {
        match self {
            Self::ToServices => "certificate",
            Self::ToClients => "door",
        }
    }
}

pub(crate) fn judge(shown: Shown, inspected: &Result<Inspected, TlsError>) -> Finding {
    let check = shown.check();
    let found = match inspected {
        Ok(found) => found,
        Err(error) => {
            return Finding::fault(
                check,
                chain(error),
                "another certificate, with its own key; `espalier certs` makes some to try",
            );
        }
    };
    let roles: Vec<&str> = found.roles.iter().map(|role| role.certificate_name()).collect();
    let until = found.until.map_or_else(String::new, |until| format!(" until {until}"));
    let says = format!("it holds{until}, and the key is its own");
    if shown == Shown::ToServices && roles.is_empty() {
        let names = Role::ALL.map(Role::certificate_name).join(", ");
        return Finding::fault(
            check,
            format!("{says}, but it has none of the names {names}"),
            "one for the kind of service that shows it",
        );
    }
    if shown == Shown::ToServices && found.is_signed == Some(false) {
        return Finding::fault(
            check,
            format!("{says}, but no authority in --tls-ca has signed it"),
            "the authority that signed it, in --tls-ca of every service",
        );
    }
    if !found.names_missing.is_empty() {
        let missing = found.names_missing.join(", ");
        return Finding::fault(
            check,
            format!("{says}, but it is not for {missing}"),
            "one with that name: clients at it refuse this one",
        );
    }
    let says = if roles.is_empty() { says } else { format!("{says}; it is for {}", roles.join(", ")) };
    match found.ends_soon {
        true => Finding::warning(
            check,
            format!("{says}; less than a quarter of its time is left"),
            "replace its files: services read them again by themselves",
        ),
        false => Finding::ok(check, says),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn inspected() -> Inspected {
        let (roles, is_signed) = (vec![Role::Gateway], Some(true));
        Inspected { until: None, ends_soon: false, roles, names_missing: vec![], is_signed }
    }

    fn level(shown: Shown, change: impl FnOnce(&mut Inspected)) -> Level {
        let mut found = inspected();
        change(&mut found);
        judge(shown, &Ok(found)).level
    }

    #[test]
    fn a_service_needs_its_name_and_its_authority_and_a_door_the_names_that_clients_know() {
        use Shown::{ToClients, ToServices};
        assert_eq!([ToServices, ToClients].map(|shown| level(shown, |_| {})), [Level::Ok; 2]);
        let nameless = [ToServices, ToClients].map(|shown| level(shown, |found| found.roles.clear()));
        assert_eq!(nameless, [Level::Fault, Level::Ok]);
        let unsigned = [ToServices, ToClients].map(|shown| level(shown, |found| found.is_signed = Some(false)));
        assert_eq!(unsigned, [Level::Fault, Level::Ok]);
        assert_eq!(level(ToClients, |found| found.names_missing.push("gateway.example".to_owned())), Level::Fault);
    }

    #[test]
    fn an_end_that_is_near_is_warned_of_and_what_cannot_be_used_is_a_fault() {
        assert_eq!(level(Shown::ToServices, |found| found.ends_soon = true), Level::Warning);
        let unusable = judge(Shown::ToClients, &Err(TlsError::NoIdentity));
        assert_eq!((unusable.level, unusable.check.as_str()), (Level::Fault, "door"));
    }
}
