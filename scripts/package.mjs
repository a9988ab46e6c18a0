/**
 * Builds a .deb and an OCI image of what `npm pack` packs, each with a Node of its own, and tries them in an empty root:
 *   node scripts/package.mjs deb          packages/agentd_<version>_<architecture>.deb; needs dpkg-deb and lintian
 *   node scripts/package.mjs oci          packages/agentd-<version>.oci.tar; needs root, mmdebstrap, umoci and skopeo
 *   node scripts/package.mjs check        installs, upgrades and purges the .deb, and runs the image; needs the same
 */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';

const NODE_MAJOR = 22;
const OUT = resolve('packages');
const LIB = 'usr/lib/agentd';
const HOME = '/var/lib/agentd';
const { version, description } = JSON.parse(fs.readFileSync('package.json', 'utf8'));
const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch] ?? process.arch;
const deb = (of = version) => join(OUT, `agentd_${of}_${architecture}.deb`);
const image = join(OUT, `agentd-${version}.oci.tar`);

/** Runs a program with these words, and more that may have spaces in them. */
function run(line, ...more) {
  const [program, ...words] = line.split(' ');
  return execFileSync(program, [...words, ...more], { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' });
}
const scratch = fs.mkdtempSync(join(tmpdir(), 'agentd-package-'));
/** Undone at the end, the last first. */
const undo = [() => fs.rmSync(scratch, { recursive: true, force: true })];
process.on('exit', () => {
  for (const one of undo.toReversed()) one();
});
fs.mkdirSync(OUT, { recursive: true });

/** The programs, their packages and Node, below a folder that becomes `/`. */
function layOut(root) {
  const lib = join(root, LIB);
  fs.mkdirSync(join(root, 'usr/bin'), { recursive: true });
  const packed = join(scratch, run('npm pack --silent --pack-destination', scratch).trim().split('\n').at(-1));
  const install = 'npm install --silent --no-audit --no-fund --ignore-scripts --omit=peer';
  const node = `node-${process.platform}-${process.arch}`;
  run(`${install} --global --prefix`, lib, packed);
  run(`${install} --prefix`, scratch, `${node}@${NODE_MAJOR}`);
  fs.rmSync(join(lib, 'bin'), { recursive: true });
  fs.cpSync(join(scratch, 'node_modules', node, 'bin/node'), join(lib, 'node'));
  fs.cpSync(join(scratch, 'node_modules', node, 'LICENSE'), join(lib, 'node-LICENSE'));
  run('strip --strip-unneeded', join(lib, 'node'));
  for (const name of ['agentd', 'agentctl']) {
    const program = `/${LIB}/lib/node_modules/agentd-files/dist/${name}.js`;
    script(join(root, 'usr/bin', name), `exec /${LIB}/node ${program} "$@"`);
  }
}

function script(path, text) {
  fs.mkdirSync(join(path, '..'), { recursive: true });
  fs.writeFileSync(path, `#!/bin/sh\nset -e\n${text}\n`);
  fs.chmodSync(path, 0o755);
}

/** The unit that `agentctl service install --system` writes, for the account and the paths of the package. */
const unit = (of) => `[Unit]
Description=agentd, a session agent daemon
Documentation=file:///usr/share/doc/agentd/server.md
After=network-online.target
Wants=network-online.target
ConditionPathExists=${HOME}/workspace/agentd.json

[Service]
Type=notify
NotifyAccess=main
User=agentd
ExecStart=${of} --workspace ${HOME}/workspace
EnvironmentFile=-/etc/agentd/keys.env
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 3 8
WatchdogSec=90
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
`;

const COPYRIGHT = `Copyright the agentd developers, under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0
The licences of what the programs contain are in
/${LIB}/lib/node_modules/agentd-files/dist/THIRD-PARTY-NOTICES.txt, that of Node in /${LIB}/node-LICENSE.
`;

/** What lintian calls errors and is meant so. */
const OVERRIDES = `# The project has no host of its own yet.
agentd: bogus-mail-host *
# /usr/bin/agentd and agentctl run them with the Node beside them, which is a build of the Node project as it is.
agentd: missing-dep-for-interpreter node *
agentd: embedded-library zlib *
# An example to read; it needs Python only where somebody runs it.
agentd: python3-script-but-no-python3-dep *
`;

function buildDeb(of = version) {
  const root = join(scratch, `deb-${of}`);
  layOut(root);
  const put = (path, text) => {
    fs.mkdirSync(join(root, path, '..'), { recursive: true });
    fs.writeFileSync(join(root, path), text);
  };
  put('lib/systemd/system/agentd.service', unit('/usr/bin/agentd'));
  put('usr/share/doc/agentd/copyright', COPYRIGHT);
  put('usr/share/doc/agentd/changelog.gz', gzipSync(fs.readFileSync('CHANGELOG.md'), { level: 9 }));
  put('usr/share/lintian/overrides/agentd', OVERRIDES);
  fs.cpSync('docs/server.md', join(root, 'usr/share/doc/agentd/server.md'));
  put(
    'DEBIAN/control',
    `Package: agentd
Version: ${of}
Architecture: ${architecture}
Maintainer: The agentd developers <agentd@localhost>
Depends: adduser, libc6, libstdc++6
Recommends: bubblewrap, git
Section: admin
Priority: optional
Description: session agent daemon that works on files
 ${description.replace(/(.{1,76})(?:\s+|$)/g, '$1\n ').trim()}
`,
  );
  script(
    join(root, 'DEBIAN/postinst'),
    `[ "$1" = configure ] || exit 0
adduser --system --quiet --group --home ${HOME} --shell /usr/sbin/nologin agentd
install -d -m 700 -o agentd -g agentd ${HOME}/workspace
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart agentd.service
fi`,
  );
  script(
    join(root, 'DEBIAN/prerm'),
    `[ "$1" = remove ] && [ -d /run/systemd/system ] || exit 0
systemctl disable --now agentd.service`,
  );
  script(
    join(root, 'DEBIAN/postrm'),
    `[ "$1" = purge ] || exit 0
echo "The sessions and their files stay in ${HOME}; remove that folder if nobody needs them."`,
  );
  run('dpkg-deb -Zgzip --root-owner-group --build', root, deb(of));
  console.log(deb(of));
}

/** A root with only what Debian calls essential, and these packages. */
function emptyRoot(folder, packages) {
  run(`mmdebstrap --quiet --variant=minbase --include=${packages.join(',')} bookworm`, folder);
  // The same on every machine, and smaller.
  for (const path of ['usr/share/doc', 'usr/share/man', 'usr/share/locale', 'var/cache/apt', 'var/lib/apt/lists'])
    fs.rmSync(join(folder, path), { recursive: true, force: true });
}

function buildImage() {
  const layout = join(scratch, 'layout');
  const bundle = join(scratch, 'bundle');
  const of = ['--image', `${layout}:${version}`];
  run('umoci init --layout', layout);
  run('umoci new', ...of);
  run('umoci unpack', ...of, bundle);
  const root = join(bundle, 'rootfs');
  emptyRoot(root, ['adduser', 'bubblewrap', 'ca-certificates', 'git', 'tini']);
  layOut(root);
  const inside = (line) => run('chroot', root, ...line.split(' '));
  inside(`adduser --system --quiet --group --uid 1000 --home ${HOME} agentd`);
  inside(`install -d -m 700 -o agentd -g agentd ${HOME}/workspace`);
  run('umoci repack', ...of, bundle);
  const entry = `/usr/bin/tini -- /usr/bin/agentd --workspace ${HOME}/workspace`.split(' ');
  const env = [`HOME=${HOME}`, `AGENTD_WORKSPACE=${HOME}/workspace`, 'PATH=/usr/local/bin:/usr/bin:/bin'];
  run(
    `umoci config --config.user agentd --config.volume ${HOME}/workspace --config.workingdir ${HOME}`,
    ...[...of, ...entry.flatMap((word) => ['--config.entrypoint', word])],
    ...env.flatMap((one) => ['--config.env', one]),
  );
  fs.rmSync(image, { force: true });
  run('skopeo copy --quiet --format oci', `oci:${layout}:${version}`, `oci-archive:${image}:agentd:${version}`);
  console.log(image);
}

/** Installs the .deb in an empty root, runs the example of README, upgrades and purges it; then runs the image. */
function check() {
  run('lintian --fail-on error', deb());
  const root = join(scratch, 'root');
  emptyRoot(root, ['adduser']);
  mountProc(root);
  const inside = (line, ...more) => run('chroot', root, ...line.split(' '), ...more);
  const next = `${version}+1`;
  buildDeb(next);
  for (const path of [deb(), deb(next)]) fs.cpSync(path, join(root, 'tmp', path.split('/').at(-1)));
  inside(`dpkg -i /tmp/agentd_${version}_${architecture}.deb`);
  const at = `cd ${HOME}; export HOME=${HOME};`;
  const asAgentd = (line) => inside('setpriv --reuid=agentd --regid=agentd --clear-groups sh -c', `${at} ${line}`);
  example(asAgentd);
  inside(`dpkg -i /tmp/agentd_${next}_${architecture}.deb`);
  asAgentd(`agentctl --workspace ${HOME}/workspace show demo`);
  inside('dpkg --purge agentd');
  const left = fs.readdirSync(join(root, HOME, 'workspace/.sessions'));
  if (!left.includes('demo') || fs.existsSync(join(root, LIB)))
    throw new Error('A purge has to keep the data, and nothing else.');
  console.log('The .deb: installed, ran the example of README, upgraded, and purged with its data kept.');
  if (!fs.existsSync(image)) return;
  const layout = join(scratch, 'checked');
  run('skopeo copy --quiet', `oci-archive:${image}`, `oci:${layout}:it`);
  const { config } = JSON.parse(run('skopeo inspect --config', `oci:${layout}:it`));
  if (config.User !== 'agentd' || config.Entrypoint[0] !== '/usr/bin/tini') throw new Error(JSON.stringify(config));
  run('umoci unpack --image', `${layout}:it`, join(scratch, 'run'));
  const rootfs = join(scratch, 'run/rootfs');
  mountProc(rootfs);
  example((line) => run('chroot --userspec=agentd:agentd', rootfs, 'sh', '-c', `${at} ${line}`));
  console.log('The image: unpacked, ran the example of README as its user.');
}

/** What a container or a machine has, and an empty root does not: commands are watched through it. */
function mountProc(root) {
  run('mount -t proc proc', join(root, 'proc'));
  undo.push(() => run('umount -l', join(root, 'proc')));
}

function example(sh) {
  const at = `--workspace ${HOME}/workspace`;
  const settings = '{ "sandbox": "none", "approvals": "auto" }';
  sh(`echo '${settings}' > workspace/agentd.json; agentctl ${at} start --model runbook`);
  const said = sh(`agentctl ${at} send demo '1. Count: \`echo 1 2 3 | wc -w\`' --wait; agentctl ${at} stop`);
  if (!said.includes('All 1 steps are done') && !said.includes('Count: `3`')) throw new Error(said);
}

const STEPS = { deb: () => buildDeb(), oci: buildImage, check };
const step = STEPS[process.argv[2]];
if (!step) throw new Error(`Expected one of ${Object.keys(STEPS).join(', ')}, got: ${process.argv[2] ?? 'nothing'}`);
step();
