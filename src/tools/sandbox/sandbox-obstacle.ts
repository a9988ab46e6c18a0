import * as fs from 'node:fs';
import { join } from 'node:path';

/** Why no sandbox starts, in a few words, and what to do about it: lines to read or to type. */
export type Obstacle = { cause: string; remedy: string[] };

/** The machine as far as it decides whether namespaces can be made. `root`: where its files are. */
type Machine = { root: string; isRoot: boolean };

const HERE: Machine = { root: '/', isRoot: process.getuid?.() === 0 };

/** How distributions install bubblewrap, by `ID` or `ID_LIKE` in `os-release`. */
const INSTALL: ReadonlyArray<readonly [string, string]> = [
  ['debian', 'sudo apt-get install bubblewrap'],
  ['fedora', 'sudo dnf install bubblewrap'],
  ['suse', 'sudo zypper install bubblewrap'],
  ['arch', 'sudo pacman -S bubblewrap'],
  ['alpine', 'sudo apk add bubblewrap'],
];

/** Where bubblewrap is not installed. */
export function missingBubblewrap({ root }: Machine = HERE): Obstacle {
  const system = [...(read(root, 'etc/os-release') ?? '').matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].map(([, id]) => id);
  const known = INSTALL.find(([name]) => system.some((id) => id?.includes(name)));
  const command = known?.[1] ?? 'Install bubblewrap 0.8 or newer';
  return { cause: 'bubblewrap is not installed', remedy: [command] };
}

/**
 * What of this machine keeps an installed bubblewrap from starting; undefined if nothing of it is known to. A container
 * comes first: what else is set belongs to its host.
 */
export function findObstacle({ root, isRoot }: Machine = HERE): Obstacle | undefined {
  const isSet = (path: string, value: string) => read(root, path)?.trim() === value;
  const has = (path: string) => fs.existsSync(join(root, path));
  if (has('.dockerenv') || has('run/.containerenv') || has('var/run/secrets/kubernetes.io'))
    return containerObstacle(has);
  if (!has('proc/self/ns/user'))
    return { cause: 'this Linux is built without user namespaces', remedy: ['Use a kernel with CONFIG_USER_NS=y.'] };
  if (isSet('proc/sys/user/max_user_namespaces', '0')) return sysctlObstacle('user.max_user_namespaces', '0', '15000');
  if (!isRoot && isSet('proc/sys/kernel/unprivileged_userns_clone', '0'))
    return sysctlObstacle('kernel.unprivileged_userns_clone', '0', '1');
  if (!isRoot && isSet('proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1')) return APPARMOR;
  if (/^Seccomp:\s*[12]$/m.test(read(root, 'proc/self/status') ?? '')) return OUTER_FILTER;
  return undefined;
}

function containerObstacle(has: (path: string) => boolean): Obstacle {
  const cause = (what: string) => `${what} forbids namespaces and a fresh /proc to what runs in it`;
  if (has('var/run/secrets/kubernetes.io'))
    return {
      cause: cause('this pod'),
      remedy: [
        'In the pod: spec.hostUsers: false; and for the container, under securityContext:',
        'seccompProfile: { type: Unconfined }',
        'appArmorProfile: { type: Unconfined }',
        'procMount: Unmasked',
      ],
    };
  if (has('run/.containerenv'))
    return {
      cause: cause('this container'),
      remedy: ['podman run --security-opt seccomp=unconfined --security-opt label=disable --security-opt unmask=ALL …'],
    };
  const options = ['seccomp', 'apparmor', 'systempaths'].map((one) => `--security-opt ${one}=unconfined`);
  return { cause: cause('this container'), remedy: [`docker run ${options.join(' ')} …`] };
}

const sysctlObstacle = (name: string, is: string, wanted: string): Obstacle => ({
  cause: `user namespaces are off (${name} is ${is})`,
  remedy: [`echo '${name}=${wanted}' | sudo tee /etc/sysctl.d/60-agentd.conf && sudo sysctl --system`],
});

/** One line, to be copied whole. */
const PROFILE = String.raw`abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,\n}\n`;
const APPARMOR: Obstacle = {
  cause: 'AppArmor allows user namespaces only to programs with a profile (as in Ubuntu 24.04), and bwrap has none',
  remedy: [`printf '${PROFILE}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`],
};

const OUTER_FILTER: Obstacle = {
  cause:
    'what started this process filters its system calls (a container, or RestrictNamespaces= in a unit of systemd)',
  remedy: [
    'In its unit: RestrictNamespaces=no, and no SystemCallFilter= and PrivateUsers=. In a container: seccomp unconfined.',
  ],
};

function read(root: string, path: string): string | undefined {
  try {
    return fs.readFileSync(join(root, path), 'utf8');
  } catch {
    return undefined;
  }
}
