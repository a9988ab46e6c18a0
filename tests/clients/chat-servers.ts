import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished, type TestContext } from 'vitest';
import { PYTHON, run, skip } from './foreign-programs.ts';

/** A port that is free now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

function scratch(): string {
  const folder = temporaryFolder('servers');
  // The servers have accounts of their own.
  chmodSync(folder, 0o755);
  return folder;
}

/** A program that is started again after each kill, and is gone with the test. */
function keepStarting(program: string, words: string[], isReady: () => Promise<boolean>) {
  let child: ChildProcess | undefined;
  let said = '';
  const start = async () => {
    child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (text: Buffer) => {
        said = (said + text.toString()).slice(-3000);
      });
    for (let tries = 0; tries < 300; tries += 1) {
      if (await isReady().catch(() => false)) return;
      await sleep(100);
    }
    throw new Error(`${program} is not ready: ${said}`);
  };
  const end = async (signal: NodeJS.Signals) => {
    const ended = new Promise((done) => child?.once('exit', done));
    child?.kill(signal);
    await ended;
  };
  onTestFinished(() => void child?.kill('SIGKILL'));
  return { start, end };
}

const SPEAKER = `
import asyncio, json, sys, nio
async def main():
    base, user, bot = sys.argv[1:4]
    c = nio.AsyncClient(base, user)
    await c.login('pw')
    room = (await c.room_create(invite=[bot], is_direct=True)).room_id
    print(json.dumps({'room': room}), flush=True)
    def heard(_, e):
        if e.sender == bot:
            print(json.dumps({'id': e.event_id, 'body': e.body}), flush=True)
    c.add_event_callback(heard, nio.RoomMessageText)
    loop = asyncio.get_event_loop()
    async def speak():
        n = 0
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            n += 1
            while True:
                try:
                    r = await asyncio.wait_for(c.room_send(room, 'm.room.message', {'msgtype': 'm.text', 'body': line.strip()}, tx_id='t%d' % n), 5)
                    if isinstance(r, nio.RoomSendResponse):
                        break
                except Exception:
                    pass
                await asyncio.sleep(.3)
    async def listen():
        while True:
            try:
                await c.sync(3000, sync_filter={'room': {'timeline': {'limit': 500}}})
            except Exception:
                await asyncio.sleep(.3)
    await asyncio.gather(speak(), listen())
asyncio.run(main())
`;

import { temporaryFolder } from '../support/temporary.ts';

/** Synapse, for the server name `here`, with its data in a folder of its own. */
export async function startSynapse() {
  const [folder, port] = [scratch(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const fast = { per_second: 1000, burst_count: 1000 };
  const config = {
    ...{ server_name: 'here', pid_file: join(folder, 'pid'), media_store_path: join(folder, 'media') },
    listeners: [{ port, bind_addresses: ['127.0.0.1'], type: 'http', tls: false, resources: [{ names: ['client'] }] }],
    database: { name: 'sqlite3', args: { database: join(folder, 'db') } },
    ...{ registration_shared_secret: 'shared', macaroon_secret_key: 'a', form_secret: 'b', report_stats: false },
    ...{ signing_key_path: join(folder, 'key'), trusted_key_servers: [], rc_message: fast },
    ...{ rc_login: { address: fast, account: fast }, rc_joins: { local: fast }, rc_invites: { per_user: fast } },
  };
  const path = join(folder, 'homeserver.yaml');
  writeFileSync(path, JSON.stringify(config));
  const words = ['-m', 'synapse.app.homeserver', '--config-path', path];
  const made = spawn(PYTHON, [...words, '--generate-keys'], { stdio: 'ignore' });
  await new Promise((done) => made.once('exit', done));
  const isReady = async () => (await fetch(`${url}/_matrix/client/versions`)).ok;
  const { start, end } = keepStarting(PYTHON, words, isReady);
  await start();
  return {
    url,
    /** Makes an account; returns an access token. */
    async register(name: string): Promise<string> {
      const admin = `${url}/_synapse/admin/v1/register`;
      const { nonce } = (await (await fetch(admin)).json()) as { nonce: string };
      const mac = createHmac('sha1', 'shared').update([nonce, name, 'pw', 'notadmin'].join('\0')).digest('hex');
      const body = JSON.stringify({ nonce, username: name, password: 'pw', admin: false, mac });
      const answer = await fetch(admin, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      return ((await answer.json()) as { access_token: string }).access_token;
    },
    async kill(): Promise<void> {
      await end('SIGKILL');
      await start();
    },
    /** Somebody with matrix-nio, in a room with another account. */
    async speakAs(name: string, other: string) {
      const child = spawn(PYTHON, ['-c', SPEAKER, url, `@${name}:here`, other], { stdio: ['pipe', 'pipe', 'ignore'] });
      onTestFinished(() => void child.kill('SIGKILL'));
      let out = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        out += text;
      });
      while (!out.includes('\n')) await sleep(50);
      return {
        say: (text: string) => void child.stdin.write(`${text}\n`),
        heard: () =>
          out
            .split('\n')
            .slice(1, -1)
            .map((line) => String(JSON.parse(line).body)),
      };
    },
  };
}

const DOVECOT = (folder: string, imap: number, lmtp: number) => `
protocols = imap lmtp
listen = 127.0.0.1
base_dir = ${folder}/run
log_path = ${folder}/dovecot.log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:${folder}/mail/%u
first_valid_uid = 0
first_valid_gid = 0
passdb {
  driver = static
  args = password=pw
}
userdb {
  driver = static
  args = uid=mail gid=mail home=${folder}/mail/%u
}
service imap-login {
  inet_listener imap {
    port = ${imap}
  }
  inet_listener imaps {
    port = 0
  }
}
service lmtp {
  inet_listener lmtp {
    address = 127.0.0.1
    port = ${lmtp}
  }
}
namespace inbox {
  inbox = yes
}
`;

/** OpenSMTPD that gives every mail to Dovecot. They need root. */
export async function startMailServers(context: TestContext) {
  const [dovecot, smtpd] = ['/usr/sbin/dovecot', '/usr/sbin/smtpd'];
  if (process.getuid?.() !== 0) skip(context, 'not root, which Dovecot and OpenSMTPD need');
  for (const program of [dovecot, smtpd]) if (!existsSync(program)) skip(context, `no ${program}`);
  const folder = scratch();
  const [imap, lmtp, smtp] = [await freePort(), await freePort(), await freePort()];
  mkdirSync(join(folder, 'mail'));
  chmodSync(join(folder, 'mail'), 0o777);
  writeFileSync(join(folder, 'dovecot.conf'), DOVECOT(folder, imap, lmtp));
  const rules = [
    'table v { "@" = "mail" }',
    `listen on 127.0.0.1 port ${smtp} hostname localhost`,
    `action "lm" lmtp "127.0.0.1:${lmtp}" rcpt-to virtual <v>`,
    'match from any for any action "lm"',
  ];
  writeFileSync(join(folder, 'smtpd.conf'), `${rules.join('\n')}\n`);
  const reaches = (port: number) => async () => {
    const { createConnection } = await import('node:net');
    return new Promise<boolean>((done) => {
      const socket = createConnection({ port, host: '127.0.0.1' });
      socket.once('data', () => done(true)).once('error', () => done(false));
      setTimeout(() => {
        socket.destroy();
        done(false);
      }, 300);
    });
  };
  const boxes = keepStarting(dovecot, ['-F', '-c', join(folder, 'dovecot.conf')], reaches(imap));
  const post = keepStarting(smtpd, ['-d', '-f', join(folder, 'smtpd.conf')], reaches(smtp));
  await boxes.start();
  await post.start();
  return {
    imap,
    smtp,
    /** Dovecot: its connections break, and what OpenSMTPD could not deliver meanwhile it tries again. */
    async kill(): Promise<void> {
      await boxes.end('SIGTERM');
      await boxes.start();
      await run('/usr/sbin/smtpctl', ['schedule', 'all']);
    },
  };
}
