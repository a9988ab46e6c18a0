import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { type ParsedMail, simpleParser } from 'mailparser';
import { onTestFinished } from 'vitest';

/** An IMAP and an SMTP server of one mailbox, with as much of the protocols as the channel uses. */
export async function startFakeMail() {
  const box: Array<{ uid: number; source: Buffer; size: number }> = [];
  const got: ParsedMail[] = [];
  const state = { down: false, revoked: false };
  const idle = new Map<Socket, number>();
  const sockets = new Set<Socket>();

  function imap(socket: Socket): void {
    const say = (...lines: string[]) => void socket.write(lines.map((line) => `${line}\r\n`).join(''));
    let idling = '';
    say('* OK [CAPABILITY IMAP4rev1 IDLE] ready');
    createInterface(socket).on('line', (line) => {
      if (line.toUpperCase() === 'DONE') {
        idle.delete(socket);
        return say(`${idling} OK done`);
      }
      const [tag = '', command = '', ...rest] = line.split(' ');
      const words = rest.join(' ');
      const ok = `${tag} OK done`;
      if (state.revoked && /^(?:LOGIN|AUTHENTICATE)$/.test(command)) return say(`${tag} NO [AUTHENTICATIONFAILED] no`);
      if (command === 'IDLE') {
        idling = tag;
        idle.set(socket, box.length);
        return say('+ idling', `* ${box.length} EXISTS`);
      }
      if (command === 'SELECT')
        say(`* ${box.length} EXISTS`, '* OK [UIDVALIDITY 7]', `* OK [UIDNEXT ${box.length + 1}]`);
      if (command === 'LIST') say('* LIST () "/" INBOX');
      if (command === 'NOOP') say(`* ${box.length} EXISTS`);
      const [, from = ''] = /^SEARCH .*?(\d+):\*/.exec(words) ?? [];
      if (command === 'UID' && from !== '')
        say(`* SEARCH ${box.flatMap(({ uid }) => (uid >= Number(from) ? uid : [])).join(' ')}`);
      const [, wanted = ''] = /^FETCH (\d+) /.exec(words) ?? [];
      const mail = box.find(({ uid }) => `${uid}` === wanted);
      if (mail) {
        const { uid, source, size } = mail;
        socket.write(`* ${uid} FETCH (UID ${uid} RFC822.SIZE ${size} BODY[]<0> {${source.length}}\r\n`);
        socket.write(source);
        say(' INTERNALDATE "28-Nov-2026 10:00:00 +0000")');
      }
      say(ok);
    });
  }

  function smtp(socket: Socket): void {
    let data: string[] | undefined;
    socket.write('220 here\r\n');
    createInterface(socket).on('line', (line) => {
      if (data) {
        if (line !== '.') return void data.push(line.replace(/^\.\./, '.'));
        const source = data.join('\r\n');
        data = undefined;
        return void simpleParser(source).then((mail) => {
          got.push(mail);
          socket.write('250 ok\r\n');
        });
      }
      const word = line.split(' ')[0]?.toUpperCase();
      if (state.down && word === 'MAIL') return void socket.write('451 later\r\n');
      if (word === 'DATA') data = [];
      const answers: Record<string, string> = { EHLO: '250-here\r\n250 AUTH PLAIN', AUTH: '235 ok', DATA: '354 go on' };
      socket.write(`${answers[word ?? ''] ?? '250 ok'}\r\n`);
    });
  }

  const listen = async (take: (socket: Socket) => void): Promise<number> => {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        idle.delete(socket);
      });
      take(socket);
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return (server.address() as AddressInfo).port;
  };
  const [imapPort, smtpPort] = [await listen(imap), await listen(smtp)];
  return {
    ...{ imap: `imap://127.0.0.1:${imapPort}`, smtp: `smtp://127.0.0.1:${smtpPort}`, got, state },
    /** The password is another one: connections end. */
    revoke(isRevoked: boolean) {
      state.revoked = isRevoked;
      for (const socket of sockets) socket.destroy();
    },
    /** `size`: what the server says that it has. */
    deliver(text: string, size?: number) {
      const source = Buffer.from(text.replace(/\r?\n/g, '\r\n'));
      box.push({ uid: box.length + 1, source, size: size ?? source.length });
      for (const socket of idle.keys()) socket.write(`* ${box.length} EXISTS\r\n`);
    },
  };
}
