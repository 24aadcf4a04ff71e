//! What a file says of a tensor, before it is known where that lies.

use crate::cursor::{CountLimit, Cursor};
use crate::error::{GgufError, Result};
use crate::limits::{DIMENSIONS_MAX, ELEMENTS_MAX, NAME_BYTES_MAX};
use crate::tensor_type::{TensorType, name_of_other};

/// Bytes that a listing takes at least: the length of its name, one dimension and how many there are, type and offset.
const LISTING_BYTES_MIN: u64 = 8 + 4 + 8 + 4 + 8;

/// A tensor as it is listed.
pub(crate) struct Listing<'a> {
    pub(crate) name: &'a str,
    /// The fastest dimension last.
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: TensorType,
    /// From the beginning of the data.
    pub(crate) offset: u64,
    /// The size of the data.
    pub(crate) bytes: u64,
}

impl<'a> Listing<'a> {
    /// What the number of tensors is held against.
    pub(crate) fn limit(max: u64) -> CountLimit {
        CountLimit { max, bytes_each: LISTING_BYTES_MIN }
    }

    /// Reads the next listing, the `index`-th.
    pub(crate) fn read(cursor: &mut Cursor<'a>, index: usize) -> Result<Self> {
        let name = cursor.string(NAME_BYTES_MAX, &format_args!("the name of tensor {index}"))?;
        let shape = read_shape(cursor, name)?;
        let kind = read_type(cursor, name)?;
        let offset = cursor.u64(&format_args!("the offset of tensor {name:?}"))?;
        let bytes = check_shape(name, &shape, kind)?;
        let sizes = shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<_>>();
        let shape = sizes.ok_or_else(|| elements_fault(name, &shape))?;
        Ok(Self { name, shape, kind, offset, bytes })
    }
}

/// The shape, turned round: the fastest dimension last.
fn read_shape(cursor: &mut Cursor<'_>, name: &str) -> Result<Vec<u64>> {
    let found = cursor.u32(&format_args!("the number of dimensions of tensor {name:?}"))?;
    if !(1..=DIMENSIONS_MAX).contains(&found) {
        return Err(GgufError::Dimensions { name: name.to_owned(), found, limit: DIMENSIONS_MAX });
    }
    let field = format_args!("the shape of tensor {name:?}");
    let mut shape = (0..found).map(|_| cursor.u64(&field)).collect::<Result<Vec<_>>>()?;
    shape.reverse();
    Ok(shape)
}

fn read_type(cursor: &mut Cursor<'_>, name: &str) -> Result<TensorType> {
    let number = cursor.u32(&format_args!("the type of tensor {name:?}"))?;
    TensorType::of(number).ok_or_else(|| {
        let (name, type_name) = (name.to_owned(), name_of_other(number));
        GgufError::TensorType { name, number, type_name }
    })
}

/// The bytes of a tensor of this shape, if there can be one.
fn check_shape(name: &str, shape: &[u64], kind: TensorType) -> Result<u64> {
    let elements = shape.iter().try_fold(1u64, |elements, &size| elements.checked_mul(size));
    let elements = elements.filter(|elements| (1..=ELEMENTS_MAX).contains(elements));
    let elements = elements.ok_or_else(|| elements_fault(name, shape))?;
    let block = kind.block_elements() as u64;
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        return Err(GgufError::Block { name: name.to_owned(), found: row, kind, block });
    }
    // Blocks have at most 210 bytes, so this is below 2^48.
    Ok((elements / block).saturating_mul(kind.block_bytes() as u64))
}

fn elements_fault(name: &str, shape: &[u64]) -> GgufError {
    GgufError::Elements { name: name.to_owned(), shape: shape.to_vec(), limit: ELEMENTS_MAX }
}
