//! `espalier vectors`: the algorithms against the results of an independent implementation.

use espalier_command::{Verdict, report};
use espalier_vectors::{VectorsError, check};

use crate::folder::Folder;

/// The command: good if no case fails; what is not built is skipped.
pub(crate) fn run(args: &Folder) -> Result<Verdict, VectorsError> {
    let found = check(&args.folder)?;
    if args.json {
        found.files.iter().for_each(report::json);
    } else {
        anstream::println!("{found}");
    }
    Ok((found.failed() == 0).into())
}
