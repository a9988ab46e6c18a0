import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { quoteForShell } from '../../src/base/strings.ts';
import { temporaryFolder } from '../support/temporary.ts';

const AGENTCTL = resolve('dist/agentctl.js');
/** A name that means something to systemd and to shells. */
const ODD = 'a "b" 100% $HOME';

test('service install --print prints units that systemd accepts, of absolute paths, and changes nothing', () => {
  const { folder, env } = emptyHome();
  const words = 'service install --print --model runbook --serve-port 8399'.split(' ');
  const all = [AGENTCTL, '--workspace', join(folder, ODD), ...words];
  const text = execFileSync(process.execPath, all, { env, encoding: 'utf8' });
  expect(fs.readdirSync(folder)).toEqual([]);
  const units = text.split(/^# (?=\/)/m).slice(1);
  expect(units.map((unit) => /^\S+\/(agentd-\S+)$/m.exec(unit)?.[1])).toEqual([
    expect.stringMatching(/^agentd-a-b-100-HOME-[0-9a-f]{6}\.service$/),
    expect.stringMatching(/^agentd-a-b-100-HOME-[0-9a-f]{6}-serve\.service$/),
  ]);
  expect(text).toContain(`ExecStart=${fs.realpathSync(process.execPath)} ${resolve('dist/agentd.js')} --workspace "`);
  expect(text).toContain('--model runbook --log-level info\n');
  for (const line of ['RestartPreventExitStatus=2 3 8', 'KillMode=process', 'WatchdogSec=90'])
    expect(text).toContain(`\n${line}\n`);
  if (spawnSync('systemd-analyze', ['--version']).error) return;
  for (const unit of units) {
    const [path = '', ...lines] = unit.split('\n');
    const file = join(folder, path.split('/').at(-1) ?? '');
    fs.writeFileSync(file, lines.join('\n'));
    const inside = { env: { ...env, XDG_RUNTIME_DIR: folder }, encoding: 'utf8' } as const;
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--user', file], inside);
    expect([status, stderr]).toEqual([0, '']);
  }
});

test('each channel of the settings gets a unit of its own', () => {
  const { folder, env } = emptyHome();
  const settings = { channels: { telegram: { type: 'telegram', token_env: 'T' } } };
  fs.writeFileSync(join(folder, 'agentd.json'), JSON.stringify(settings));
  const words = [AGENTCTL, '--workspace', folder, 'service', 'install', '--print', '--model', 'runbook'];
  const text = execFileSync(process.execPath, words, { env, encoding: 'utf8' });
  expect(text).toMatch(/^# \/.*\.channel-telegram\.service$/m);
  expect(text).toContain(`agentctl.js --workspace ${folder} channel run telegram\n`);
});

test('without a service, status and uninstall say how to install one, which needs a free port', async () => {
  const { folder, env } = emptyHome();
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const port = String(Object(server.address()).port);
  const words = ['--workspace', folder, 'service', 'install', '--model', 'runbook', '--serve-port', port];
  const { status, stderr } = spawnSync(process.execPath, [AGENTCTL, ...words], { env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringContaining(`Port ${port} is in use`)]);
  expect(fs.existsSync(join(folder, 'config'))).toBe(false);
  server.close();
  for (const action of ['status', 'uninstall']) {
    const { status, stderr } = spawnSync(process.execPath, [AGENTCTL, 'service', action], { env, encoding: 'utf8' });
    expect([action, status]).toEqual([action, 3]);
    expect(stderr).toContain('agentctl service install');
  }
});

test.skipIf(!canRunSystemd())(
  'a service starts, stops and restarts with the commands, is started again when it hangs, and is gone when uninstalled',
  () => {
    const { folder, env } = emptyHome();
    const workspace = join(folder, ODD);
    const ctl = (...words: string[]) =>
      [process.execPath, AGENTCTL, '--workspace', workspace, ...words].map(quoteForShell).join(' ');
    const unit = '$(systemctl --user list-unit-files --no-legend "agentd-*" | cut -d" " -f1)';
    const script = [
      'mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system /run/u',
      '/lib/systemd/systemd --user >/dev/null 2>&1 & manager=$!',
      `timeout 60 sh -c 'until systemctl --user show-environment; do sleep 0.1; done' >/dev/null 2>&1; echo "manager $?"`,
      `${ctl('service', 'install', '--model', 'runbook')}; echo "install $?"`,
      `${ctl('send', 'demo', '1. Say it: `echo hi`', '--wait', '--timeout', '60')}; echo "send $?"`,
      `systemctl --user show ${unit} -p ActiveState,StatusText,NRestarts`,
      `${ctl('service', 'status', '--json')}`,
      `${ctl('start', '--model', 'other')}; echo "flags $?"`,
      `${ctl('restart')}; echo "restart $?"`,
      `${ctl('stop')}; echo "stop $?"`,
      `${ctl('status')} | head -n 1`,
      `${ctl('start')}; echo "start $?"`,
      `sed -i s/WatchdogSec=90/WatchdogSec=5/ "$XDG_CONFIG_HOME"/systemd/user/${unit}; systemctl --user daemon-reload`,
      `${ctl('restart')}; kill -STOP "$(systemctl --user show ${unit} -p MainPID --value)"`,
      `timeout 60 sh -c 'until systemctl --user show "$1" -p NRestarts | grep =1; do sleep 0.2; done' - ${unit}`,
      `timeout 60 sh -c 'until systemctl --user is-active "$1"; do sleep 0.2; done' - ${unit}; echo "hung $?"`,
      `sed -i 's#dist/agentd.js#dist/gone.js#; s#ExecStart=[^ ]*#ExecStart=/gone/node#' "$XDG_CONFIG_HOME"/systemd/user/${unit}`,
      `${ctl('service', 'status')}; echo "stale $?"`,
      `${ctl('service', 'uninstall')}; echo "uninstall $?"`,
      `ls "$XDG_CONFIG_HOME/systemd/user"; ${ctl('service', 'status')}; echo "gone $?"`,
      'systemctl --user exit; timeout 30 tail --pid $manager -f /dev/null; kill -KILL $manager',
    ].join('\n');
    const inside = { env: { ...env, XDG_RUNTIME_DIR: '/run/u' }, encoding: 'utf8' } as const;
    const { stdout } = spawnSync('unshare', ['-m', 'sh', '-c', `exec 2>&1\n${script}`], inside);
    expect(stdout).toMatch(/install 0\n[\s\S]*send 0\n/);
    for (const line of ['ActiveState=active', 'StatusText=serves', 'NRestarts=0'])
      expect(stdout).toContain(`${line}\n`);
    expect(stdout).toMatch(/has its own flags, in .*\nflags 1\n/);
    const lines = 'restart 0,stop 0,No daemon is running,start 0,NRestarts=1,hung 0,stale 1,uninstall 0,gone 3';
    for (const line of lines.split(',')) expect(stdout).toContain(`\n${line}`);
    for (const gone of ['/gone/node', 'dist/gone.js']) expect(stdout).toContain(`${gone}, which is gone`);
  },
);

/** An empty folder as the home of everything that is started with this environment. */
function emptyHome() {
  const folder = temporaryFolder('service');
  return { folder, env: { PATH: process.env['PATH'], HOME: folder, XDG_CONFIG_HOME: join(folder, 'config') } };
}

/** A user manager of systemd runs without systemd as process 1, given a `/run` of its own. */
function canRunSystemd(): boolean {
  if (process.getuid?.() !== 0 || !fs.existsSync('/lib/systemd/systemd')) return false;
  return spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run']).status === 0;
}
