import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto';
import { createServer } from 'node:http';
import { expect } from 'vitest';
import { listen } from './temporary.ts';

/** A push service with one browser: it checks who sends (RFC 8292) and decrypts as the browser would (RFC 8291). */
export async function startPushService() {
  const browser = createECDH('prime256v1');
  browser.generateKeys();
  const auth = randomBytes(16);
  const state = { status: 201, refused: 0 };
  const got: Array<{ title: string; text: string; session: string | null; link?: string; id: string }> = [];

  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    if (state.status !== 201) {
      state.refused += 1;
      return void response.writeHead(state.status).end();
    }
    expect.soft(request.headers['content-encoding']).toBe('aes128gcm');
    expect.soft(Number(request.headers['ttl'])).toBeGreaterThan(0);
    checkSender(request.headers.authorization ?? '', url);
    const body = Buffer.concat(pieces);
    expect.soft(body.length).toBeLessThanOrEqual(4096);
    got.push(JSON.parse(decrypt(body)));
    response.writeHead(201).end();
  });
  const port = await listen(server);
  const url = `http://127.0.0.1:${port}`;

  function decrypt(body: Buffer): string {
    const salt = body.subarray(0, 16);
    const keyLength = body.readUInt8(20);
    const sender = body.subarray(21, 21 + keyLength);
    const sealed = body.subarray(21 + keyLength);
    const derive = (key: Buffer, own: Buffer, info: Buffer, bytes: number) =>
      Buffer.from(hkdfSync('sha256', key, own, info, bytes));
    const info = Buffer.concat([Buffer.from('WebPush: info\0'), browser.getPublicKey(), sender]);
    const input = derive(browser.computeSecret(sender), auth, info, 32);
    const key = derive(input, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
    const nonce = derive(input, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
    const decipher = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(sealed.subarray(-16));
    const text = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
    expect.soft(text.at(-1)).toBe(2);
    return text.subarray(0, -1).toString();
  }

  const subscription = {
    endpoint: `${url}/push/1`,
    expirationTime: null,
    keys: { p256dh: browser.getPublicKey('base64url'), auth: auth.toString('base64url') },
  };
  return { got, state, subscription };
}

function checkSender(header: string, audience: string): void {
  const [, token = '', key = ''] = /^vapid t=([^,]+), k=(\S+)$/.exec(header) ?? [];
  const [head = '', claims = '', signature = ''] = token.split('.');
  const point = Buffer.from(key, 'base64url');
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
  const publicKey = createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  const signed = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
  const isValid = verify('sha256', Buffer.from(`${head}.${claims}`), signed, Buffer.from(signature, 'base64url'));
  expect.soft(isValid).toBe(true);
  const { aud, exp, sub } = JSON.parse(Buffer.from(claims, 'base64url').toString());
  expect.soft(aud).toBe(audience);
  expect.soft(exp * 1000 - Date.now()).toBeLessThanOrEqual(86_400_000);
  expect.soft(sub).toMatch(/^(?:mailto|https):/);
}
