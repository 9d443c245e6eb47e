/**
 * The system calls of a container with native programs: those of Docker's own profile for a process
 * without capabilities on x86-64, and personality(ADDR_NO_RANDOMIZE), which Docker refuses: with random
 * addresses no two runs would be equal.
 *
 * https://github.com/moby/profiles, seccomp/default.json of 2026-06-30; names of the kernel's
 * arch/x86/entry/syscalls/syscall_64.tbl
 */

const ALLOWED = `
accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_adjtime
clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod
fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_robust_list
get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid
getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt
gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listmount
listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create
memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap modify_ldt mprotect mq_getsetattr
mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock
munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe
pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease
process_vm_readv process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
recvfrom recvmmsg recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir
rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler
sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list
set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid
setresuid setreuid setrlimit setsid setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown
sigaltstack signalfd signalfd4 socketpair splice stat statfs statmount statx symlink symlinkat sync sync_file_range
syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat uretprobe utime utimensat utimes
vfork vmsplice wait4 waitid write writev
`;

const ADDR_NO_RANDOMIZE = 0x0040000, UNAME26 = 0x0020000, LINUX32 = 0x0008, QUERY = 0xffffffff;
const PERSONALITIES = [
  ...[0, LINUX32, UNAME26, UNAME26 | LINUX32, QUERY],
  ADDR_NO_RANDOMIZE,
];

/** Flags of `clone` for namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACES = 0x7e020000;
/** Families of sockets that no container is given: AF_ALG and AF_VSOCK. */
const AF_ALG = 38, AF_VSOCK = 40;
const EPERM = 1, ENOSYS = 38;

function allow(names: readonly string[], ...args: readonly object[]): object {
  return { names, action: "SCMP_ACT_ALLOW", args };
}

/** Of `security_opt`, in JSON. Other architectures' calls, 32-bit ones among them, end the process. */
export function seccompProfile(): string {
  return JSON.stringify({
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    architectures: ["SCMP_ARCH_X86_64"],
    syscalls: [
      allow(ALLOWED.trim().split(/\s+/)),
      ...PERSONALITIES.map((value) =>
        allow(["personality"], { index: 0, value, op: "SCMP_CMP_EQ" })
      ),
      allow(["clone"], { index: 0, value: NAMESPACES, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }),
      // The C library then uses `clone`, whose flags a filter can see.
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      allow(["socket"], { index: 0, value: AF_ALG, op: "SCMP_CMP_LT" }),
      allow(["socket"], { index: 0, value: AF_ALG + 1, op: "SCMP_CMP_EQ" }),
      allow(["socket"], { index: 0, value: AF_VSOCK, op: "SCMP_CMP_GT" }),
    ],
  });
}
