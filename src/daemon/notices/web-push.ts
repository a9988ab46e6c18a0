import {
  createCipheriv,
  createECDH,
  createPrivateKey,
  hkdfSync,
  type JsonWebKey,
  randomBytes,
  sign,
} from 'node:crypto';

/** A browser that takes notices: where, and its keys (RFC 8291), in base64url. */
export type PushSubscriber = { endpoint: string; keys: { p256dh: string; auth: string } };
/** The key pair by which push services know this workspace (VAPID, RFC 8292). `publicKey`: the point, in base64url. */
export type PushKeys = { publicKey: string; privateKey: JsonWebKey };

/** What a browser accepts: one record of 4,096 bytes with its header, one byte of padding and the tag. */
export const MAX_PUSH_BYTES = 4096 - 86 - 17;
const RECORD_BYTES = 4096;
/** How long a push service keeps a message for a browser that is off, in s. */
const KEEP_S = 86_400;
/** A token may be valid for a day at most. */
const TOKEN_S = 12 * 3600;

/**
 * The request that pushes a text to a browser. Nobody between can read it: it is encrypted for that browser.
 * `contact`: where a push service reaches whoever sends.
 */
export function pushRequest(
  text: string,
  to: PushSubscriber,
  keys: PushKeys,
  { contact, isUrgent, now }: { contact: string; isUrgent: boolean; now: Date },
): { headers: Record<string, string>; body: Buffer<ArrayBuffer> } {
  const claims = { aud: new URL(to.endpoint).origin, exp: Math.floor(now.getTime() / 1000) + TOKEN_S, sub: contact };
  const headers = {
    authorization: `vapid t=${signToken(claims, keys.privateKey)}, k=${keys.publicKey}`,
    'content-encoding': 'aes128gcm',
    'content-type': 'application/octet-stream',
    ttl: String(KEEP_S),
    urgency: isUrgent ? 'high' : 'normal',
  };
  return { headers, body: encryptForBrowser(Buffer.from(text), to.keys) };
}

function signToken(claims: object, privateKey: JsonWebKey): string {
  const parts = [{ typ: 'JWT', alg: 'ES256' }, claims].map((one) =>
    Buffer.from(JSON.stringify(one)).toString('base64url'),
  );
  const key = createPrivateKey({ key: privateKey, format: 'jwk' });
  const signature = sign('sha256', Buffer.from(parts.join('.')), { key, dsaEncoding: 'ieee-p1363' });
  return [...parts, signature.toString('base64url')].join('.');
}

/** RFC 8291 with RFC 8188: one record, encrypted with a key that only the browser can derive. */
export function encryptForBrowser(
  text: Buffer,
  { p256dh, auth }: PushSubscriber['keys'],
  secrets: { salt: Buffer; privateKey?: Buffer } = { salt: randomBytes(16) },
): Buffer<ArrayBuffer> {
  const own = createECDH('prime256v1');
  if (secrets.privateKey) own.setPrivateKey(secrets.privateKey);
  else own.generateKeys();
  const browser = Buffer.from(p256dh, 'base64url');
  const shared = own.computeSecret(browser);
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), browser, own.getPublicKey()]);
  const derive = (key: Buffer, salt: Buffer, about: Buffer, bytes: number) =>
    Buffer.from(hkdfSync('sha256', key, salt, about, bytes));
  const input = derive(shared, Buffer.from(auth, 'base64url'), info, 32);
  const key = derive(input, secrets.salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = derive(input, secrets.salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const cipher = createCipheriv('aes-128-gcm', key, nonce);
  // 2: the last record.
  const record = [cipher.update(Buffer.concat([text, Buffer.from([2])])), cipher.final(), cipher.getAuthTag()];
  const head = Buffer.alloc(5);
  head.writeUInt32BE(RECORD_BYTES);
  head.writeUInt8(own.getPublicKey().length, 4);
  return Buffer.concat([secrets.salt, head, own.getPublicKey(), ...record]);
}
