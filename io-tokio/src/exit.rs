//! The end of the process.

/// `_exit`: ends the process without running anything else.
///
/// No destructor and no exit handler runs, so none can hang, and none takes away what a thread still uses: a local store
/// that somebody has open does not outlive its library's own exit handlers. What a process leaves unfinished here is what a
/// kill leaves unfinished.
#[allow(unsafe_code)]
pub fn exit_at_once(code: u8) -> ! {
    // SAFETY: `_exit` takes no pointer and returns to nobody.
    unsafe { libc::_exit(i32::from(code)) }
}
