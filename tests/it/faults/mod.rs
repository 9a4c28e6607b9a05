//! Faults, injected for real: what a server does when it is killed, its disk is full, its file is damaged, its clock
//! jumps, or its clients misbehave. After each, `oracle` looks for a lost or doubled row and a half-done reassignment.

mod clients;
mod clock;
mod disk;
mod ending;
mod file;
pub mod oracle;
mod panics;
mod points;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted when it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// `None` where this user may not mount: the test is skipped, and says so.
    fn tmpfs(at: &Path, size: &str) -> Option<Self> {
        Self::put(at, &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
    }

    /// A file or directory mounted on itself, so that it can be made read-only.
    fn read_only(at: &Path) -> Option<Self> {
        let path = at.display().to_string();
        let mount = Self::put(at, &["--bind", &path])?;
        mount.remount("remount,bind,ro").then_some(mount)
    }

    fn put(at: &Path, args: &[&str]) -> Option<Self> {
        let mounted = Command::new("mount").args(args).arg(at).output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: this user can't mount anything");
        }
        mounted.then(|| Self(at.to_path_buf()))
    }

    fn remount(&self, options: &str) -> bool {
        Command::new("mount").args(["-o", options]).arg(&self.0).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
