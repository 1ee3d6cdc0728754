"""What a guest is made of: Debian packages, and the files that make a node of them.

Everything here is text; `image` builds a disk of it and keeps the disk until the text changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SUITE: Final = "trixie"
"""Its containerd is the first of Debian's that speaks NRI."""
NODE: Final = "numa0"
STUFF: Final = "/stuff"
"""Where a disk with the kubelet and numakube is mounted, which is made for each run."""
LIBRARIES: Final = "/opt/numakube"
"""Where the image has what numakube imports."""
PAUSE_IMAGE: Final = "numakube.test/pause:1"

PACKAGES: Final = (
    "busybox-static",
    "ca-certificates",
    "containerd",
    "containernetworking-plugins",
    "dbus",
    "iproute2",
    "iptables",
    "kmod",
    "linux-image-amd64",
    "openssh-server",
    "python3",
    "runc",
    "systemd-sysv",
    "udev",
)

# Modules that no guest of ours has a device for; they are most of the image otherwise.
LEFT_OUT: Final = (
    "/usr/lib/modules/*/kernel/sound/*",
    "/usr/lib/modules/*/kernel/drivers/gpu/*",
    "/usr/lib/modules/*/kernel/drivers/media/*",
    "/usr/lib/modules/*/kernel/drivers/net/wireless/*",
    "/usr/lib/modules/*/kernel/drivers/infiniband/*",
    "/usr/lib/modules/*/kernel/drivers/staging/*",
    "/usr/lib/modules/*/kernel/drivers/iio/*",
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
)

# Before packages are configured: a kernel's package makes its initrd by this.
EARLY_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "etc/initramfs-tools/conf.d/small": "MODULES=list\nCOMPRESS=zstd\nFSTYPE=ext4\n",
        "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    }
)

_NETWORK: Final = """\
[Match]
Driver=virtio_net
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
IPv6AcceptRA=no
"""

_CONTAINERD: Final = f"""\
version = 2
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "/var/run/nri/nri.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""

_CNI: Final = """\
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0",
 "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local",
 "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
"""

_KUBELET: Final = f"""\
[Unit]
After=containerd.service
Wants=containerd.service
[Service]
ExecStart={STUFF}/kubelet --config=/var/lib/kubelet/config.yaml \
  --kubeconfig={STUFF}/kubeconfig --hostname-override={NODE} --node-ip=10.0.2.15 --v=2
KillMode=process
CPUAccounting=true
MemoryAccounting=true
"""

_NUMAKUBE: Final = f"""\
#!/bin/sh
export PYTHONPATH={STUFF}/site:{LIBRARIES} PYTHONPYCACHEPREFIX=/var/cache/numakube
exec /usr/bin/python3 -c 'import sys; sys.argv[0] = "numakube"
from numakube.cli.main import main; main()' "$@"
"""

LATE_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "etc/hostname": f"{NODE}\n",
        "etc/hosts": f"127.0.0.1 localhost {NODE}\n",
        "etc/fstab": f"/dev/vda / ext4 rw,noatime 0 0\n/dev/vdb {STUFF} ext4 ro 0 0\n",
        "etc/resolv.conf": "nameserver 10.0.2.3\n",
        "etc/systemd/network/10-node.network": _NETWORK,
        "etc/systemd/system/kubelet.service": _KUBELET,
        "etc/modprobe.d/node.conf": "blacklist kvm_amd\nblacklist kvm_intel\nblacklist floppy\n",
        "etc/modules-load.d/node.conf": "overlay\nbr_netfilter\n",
        "etc/sysctl.d/node.conf": (
            "net.ipv4.ip_forward=1\nvm.overcommit_memory=1\n"
            "kernel.panic=10\nkernel.panic_on_oops=1\n"
        ),
        "etc/ssh/sshd_config.d/node.conf": (
            "PermitRootLogin prohibit-password\nUsePAM no\nUseDNS no\nMaxSessions 100\n"
        ),
        "etc/containerd/config.toml": _CONTAINERD,
        "etc/cni/net.d/10-pods.conflist": _CNI,
        "usr/local/bin/numakube": _NUMAKUBE,
        "var/lib/kubelet/.keep": "",
        "stuff/.keep": "",
    }
)

# What an image of numakube needs of the guest's own files: Python, its libraries, and a shell.
PYTHON_FILES: Final = (
    *("bin", "lib", "lib64", "usr/bin/sh", "usr/bin/dash", "usr/lib64"),
    *("usr/bin/python3", "usr/bin/python3.13", "usr/lib/python3.13", "usr/lib/x86_64-linux-gnu"),
    *("etc/passwd", "etc/group", "etc/ssl", "etc/python3.13", LIBRARIES.removeprefix("/")),
)
NOT_PYTHON: Final = (
    *("gconv", "systemd", "perl-base", "xtables", "security", "engines-3", "e2fsprogs"),
    *("numpy", "numpy.libs"),
)

ENABLED: Final = ("systemd-networkd", "ssh", "containerd")
# What a machine that lives for minutes has no use for.
MASKED: Final = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
    "systemd-timesyncd.service",
)
