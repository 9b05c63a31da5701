//! Which system call instructions of some code can be made into jumps.
//!
//! Apart from making them: it reads bytes, and is asked the same of the same
//! library in each process of a session.

use super::entered::{SPANS, entered};
use super::{BEHIND, CALL, JUMP_BYTES, RET, RETURNS};
use crate::frames::Found;
use crate::sweep::each_pair;

/// How the padding behind a `ret` begins: instructions that do nothing, of several lengths.
const PADDING: [[u8; 2]; 7] =
    [[0x0F, 0x1F], [0x66, 0x0F], [0x66, 0x2E], [0x66, 0x66], [0x66, 0x90], [0x90, 0x90], [0xCC, 0xCC]];
/// Sites of one image, at most; a C library has five hundred.
const SITES: usize = SPANS;

/// A site that can be made into a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Offset of the instruction.
    pub(super) at: usize,
    /// Index into [`BEHIND`], or [`RETURNS`].
    pub(super) form: usize,
}

/// Bits of a packed site that tell its form.
const FORM_BITS: u32 = 2;
const _: () = assert!(RETURNS < 1 << FORM_BITS);

impl Site {
    /// The site in one word; `None` if it lies too far from the beginning.
    pub fn packed(&self) -> Option<u32> {
        let at = u32::try_from(self.at).ok().filter(|at| at.leading_zeros() >= FORM_BITS)?;
        Some(at << FORM_BITS | self.form as u32)
    }

    const NONE: Self = Self { at: 0, form: 0 };

    /// Behind the bytes that are not run any more.
    pub(super) fn back(&self) -> usize {
        BEHIND.get(self.form).map_or(self.at + JUMP_BYTES, |(bytes, _)| self.at + CALL.len() + bytes.len())
    }
}

/// What is asked about an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Whether the call there is one.
    Call,
    /// Whether the jump there is one.
    Jump,
}

/// The sites of some code, in ascending order.
#[derive(Debug)]
pub struct Sites {
    list: [Site; SITES],
    count: usize,
}

impl Sites {
    /// Looks through `code`. `known` says what is known of an offset that looks like an instruction: a call, or a jump that
    /// leads between the bytes of one.
    pub fn find(code: &[u8], mut known: impl FnMut(Asked, usize) -> Found) -> Self {
        let mut sites = Self { list: [Site::NONE; SITES], count: 0 };
        each_pair(code, CALL[0], [CALL[1]; 4], |at| {
            if sites.count < SITES
                && let Some(form) = form_of(&code[at + 2..])
                && known(Asked::Call, at) == Found::At(at)
            {
                sites.list[sites.count] = Site { at, form };
                sites.count += 1;
            }
        });
        sites.drop_entered(code, |at| known(Asked::Jump, at) == Found::Nothing);
        sites
    }

    /// Those that somebody found who looked through the same code: `packed` by [`Site::packed`]. `None` if one is not there.
    pub fn known(code: &[u8], packed: impl Iterator<Item = u32>) -> Option<Self> {
        let mut sites = Self { list: [Site::NONE; SITES], count: 0 };
        for word in packed {
            let site = Site { at: (word >> FORM_BITS) as usize, form: word as usize & ((1 << FORM_BITS) - 1) };
            let behind = code.get(site.at..)?.strip_prefix(&CALL)?;
            if form_of(behind)? != site.form {
                return None;
            }
            *sites.list.get_mut(sites.count)? = site;
            sites.count += 1;
        }
        Some(sites)
    }

    /// The sites.
    pub fn as_slice(&self) -> &[Site] {
        &self.list[..self.count]
    }

    /// Leaves out every site into whose bytes something may jump.
    fn drop_entered(&mut self, code: &[u8], is_none: impl FnMut(usize) -> bool) {
        let sites = self.as_slice();
        let entered = entered(code, sites.len(), |index| [sites[index].at, sites[index].back()], is_none);
        let mut kept = 0;
        for index in (0..self.count).filter(|&index| !entered[index]) {
            self.list[kept] = self.list[index];
            kept += 1;
        }
        self.count = kept;
    }
}

/// What stands behind the instruction.
fn form_of(behind: &[u8]) -> Option<usize> {
    let returns = || match behind {
        [RET, first, second, ..] if PADDING.contains(&[*first, *second]) => Some(RETURNS),
        _ => None,
    };
    BEHIND.iter().position(|(bytes, _)| behind.starts_with(bytes)).or_else(returns)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Asked, Found, Sites};

    /// Every call is one, and every jump may be.
    pub(in crate::sites) fn unsure(asked: Asked, at: usize) -> Found {
        if asked == Asked::Call { Found::At(at) } else { Found::Unsure }
    }

    fn found(code: &[u8]) -> Vec<usize> {
        Sites::find(code, unsure).as_slice().iter().map(|site| site.at).collect()
    }

    #[test]
    fn a_site_needs_the_comparison_behind_it_and_no_jump_into_it() {
        let site = [0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF, 0xC3];
        let with = |before: &[u8], behind: &[u8]| [before, &site, behind].concat();
        assert_eq!(found(&site), [0]);
        assert_eq!(found(&[0x0F, 0x05, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90]), []);
        assert_eq!(found(&with(&[0x90; 3], &[])), [3]);
        assert_eq!(found(&with(&[0x75, 0x02], &[])), [], "a short jump to the comparison");
        assert_eq!(found(&with(&[0x75, 0x00], &[])), [2], "a short jump to the site itself");
        assert_eq!(found(&with(&[], &[0xEB, 0xF7])), [], "a jump back to the comparison");
        assert_eq!(found(&with(&[0xE9, 2, 0, 0, 0], &[])), []);
        assert_eq!(found(&with(&[0x0F, 0x84, 8, 0, 0, 0], &[])), [6], "a jump behind it");
        assert_eq!(found(&with(&[0x0F, 0x84, 7, 0, 0, 0], &[])), []);
    }

    #[test]
    fn what_is_no_instruction_does_not_jump() {
        // `mov ecx, 0x2eb90`, which has the bytes of a short jump to the comparison; `syscall; cmp rax, -4096; ret`
        let code = [0xB9, 0x90, 0xEB, 0x02, 0x00, 0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF, 0xC3];
        let sites = |jump: Found| {
            let known = |asked, at| if asked == Asked::Call { Found::At(at) } else { jump };
            Sites::find(&code, known).as_slice().len()
        };
        assert_eq!(code[2..4], [0xEB, 0x02]);
        assert_eq!([sites(Found::Nothing), sites(Found::Unsure), sites(Found::At(2))], [1, 0, 0]);
    }

    #[test]
    fn a_site_that_returns_needs_padding_behind_it() {
        assert_eq!(found(&[0x0F, 0x05, 0xC3, 0x66, 0x2E, 0x0F, 0x1F]), [0]);
        assert_eq!(found(&[0x90, 0x0F, 0x05, 0xC3, 0x0F, 0x1F, 0x40, 0x00]), [1]);
        assert_eq!(found(&[0x0F, 0x05, 0xC3, 0x55, 0x48]), [], "another function");
        assert_eq!(found(&[0x0F, 0x05, 0xC3, 0x0F, 0x05]), [], "another site");
    }

    #[test]
    fn sites_that_somebody_found_are_taken_only_where_they_are() {
        let code =
            [0x90, 0x0F, 0x05, 0xC3, 0x0F, 0x1F, 0x40, 0x00, 0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF, 0xC3];
        let found = Sites::find(&code, unsure);
        let packed: Vec<u32> = found.as_slice().iter().map(|site| site.packed().unwrap()).collect();
        let known = |code: &[u8], packed: &[u32]| {
            Sites::known(code, packed.iter().copied()).map(|sites| sites.as_slice().to_vec())
        };
        assert_eq!(packed.len(), 2);
        assert_eq!(known(&code, &packed), Some(found.as_slice().to_vec()));
        assert_eq!(known(&code[1..], &packed), None, "other code");
        assert_eq!(known(&code, &[packed[0] + 1]), None, "another form");
        assert_eq!(known(&code, &[u32::MAX]), None, "behind the end");
    }
}
