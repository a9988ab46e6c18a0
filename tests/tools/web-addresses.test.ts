import { expect, test } from 'vitest';
import type { Permissions } from '../../src/protocol/settings/permissions.ts';
import { ALLOW_ALL, isPublicAddress, resolveAllowedAddresses } from '../../src/tools/web/destination.ts';
import { requestChecked } from '../../src/tools/web/outbound-request.ts';
import { fetchSetup, respondWith, sendsOn, server } from './web-server.ts';

const PRIVATE = [
  ...[
    '127.0.0.1',
    '127.8.8.8',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
  ],
  ...[
    '100.64.0.1',
    '100.100.100.200',
    '192.0.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '239.1.1.1',
    '255.255.255.255',
    '240.0.0.1',
  ],
  ...['::', '::1', 'fe80::1', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '::ffff:127.0.0.1', '::ffff:a9fe:a9fe'],
  ...['64:ff9b::7f00:1', '2002:7f00:1::', '2001:0:1::1', '2001:db8::1', '::7f00:1', 'words'],
];

test('addresses outside the public network are distinguished from public ones', () => {
  expect(PRIVATE.filter(isPublicAddress)).toEqual([]);
  const open = ['1.1.1.1', '93.184.215.14', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '::ffff:8.8.8.8'];
  expect(open.filter((address) => !isPublicAddress(address))).toEqual([]);
});

test.each([
  ['http://127.0.0.1/', 'not an address of the public network'],
  ['http://2130706433/', 'http://127.0.0.1/ is refused'],
  ['http://0x7f.1/', 'http://127.0.0.1/ is refused'],
  ['http://[::ffff:127.0.0.1]/', 'is refused'],
  ['http://[::1]:8080/', 'is refused'],
  ['http://169.254.169.254/latest/meta-data/', '`network.allow_private`'],
  ['http://localhost/', 'localhost is 127.0.0.1'],
  ['https://user:pass@example.org/', 'a user name or password'],
  ['file:///etc/passwd', 'Only http and https'],
  ['ftp://example.org/', 'Only http and https'],
  ['javascript:alert(1)', 'Only http and https'],
  ['data:text/html,hi', 'Only http and https'],
  ['example.org/page', 'is not a URL'],
  ['http://', 'is not a URL'],
  ['http://exa mple.org/', 'is not a URL'],
  ['http://example.org:99999/', 'is not a URL'],
  ['http://example.org:22/', 'only 80 and 443'],
])('%s is refused with a reason', async (url, reason) => {
  const resolve = async (host: string) => [{ address: host === 'localhost' ? '127.0.0.1' : '1.1.1.1', family: 4 }];
  const { ok, text } = await fetchSetup({ network: {}, resolve }).use('web_fetch', { url });
  expect(ok).toBe(false);
  expect(text).toContain(reason);
});

test.each([
  ['EAI_AGAIN', 'The address of `nowhere.test` could not be found: the name servers do not answer at the moment.'],
  ['ENOTFOUND', 'There is no host `nowhere.test`. Is its name right?'],
  ['ESERVFAIL', 'The address of `nowhere.test` could not be found: it broke.'],
])('a name that cannot be looked up (%s) is an error that says why', async (code, says) => {
  const resolve = () => Promise.reject(Object.assign(new Error('it broke'), { code }));
  await expect(resolveAllowedAddresses(new URL('http://nowhere.test/'), ALLOW_ALL, resolve)).rejects.toThrow(says);
});

test('redirects are followed, and the answer names the final URL', async () => {
  const { url, asked } = await server({
    '/1': sendsOn('/2', 301),
    '/2': sendsOn('3?x=y#z', 308),
    '/3': respondWith('arrived', 'text/plain'),
  });
  const { text } = await fetchSetup().use('web_fetch', { url: url('/1') });
  expect(text).toBe(`${url('/3?x=y')}\n7 bytes, text/plain\n\narrived`);
  expect(asked).toEqual(['/1', '/2', '/3?x=y']);
});

test('a loop of redirects ends after five', async () => {
  const { url, asked } = await server({ '/a': sendsOn('/b'), '/b': sendsOn('/a') });
  const { ok, text } = await fetchSetup().use('web_fetch', { url: url('/a') });
  expect({ ok, text }).toEqual({
    ok: false,
    text: `${url('/a')} redirects more than 5 times, at last to ${url('/a')}.`,
  });
  expect(asked).toHaveLength(6);
});

test.each([
  ['another address', 'http://127.0.0.2:PORT/secret'],
  ['the same in other words', 'http://[::ffff:127.0.0.2]:PORT/secret'],
  ['a name of it', 'http://inside.example:PORT/secret'],
  ['a file', 'file:///etc/passwd'],
  ['a password', 'http://a:b@127.0.0.1:PORT/'],
])('a redirect to %s that is not allowed is not followed', async (_, to) => {
  const routes = { '/secret': respondWith('secret', 'text/plain') };
  const front = await server({ '/': (_request, response) => response.writeHead(302, { location: target() }).end() });
  const inside = await server(routes, { host: '127.0.0.2', port: front.port });
  const target = () => to.replace('PORT', String(front.port));
  const resolve = async () => [{ address: '127.0.0.2', family: 4 }];
  const { ok, text } = await fetchSetup({ resolve }).use('web_fetch', { url: front.url('/') });
  expect(ok).toBe(false);
  expect(text).not.toContain('secret\n');
  expect(inside.asked).toEqual([]);
});

test('the connection goes to the checked address, whatever the name resolves to later', async () => {
  const outside = await server({ '/': respondWith('outside', 'text/plain'), '/on': sendsOn('/') });
  const inside = await server({ '/': respondWith('inside', 'text/plain') }, { host: '127.0.0.2', port: outside.port });
  let asked = 0;
  // 127.0.0.1 is allowed here and represents the public network, 127.0.0.2 the private one.
  const resolve = async () => [{ address: asked++ === 0 ? '127.0.0.1' : '127.0.0.2', family: 4 }];
  const { use } = fetchSetup({ resolve });
  const url = (path: string) => `http://rebinding.example:${outside.port}${path}`;
  expect((await use('web_fetch', { url: url('/') })).text).toMatch(/outside$/);
  expect(asked).toBe(1);
  expect((await use('web_fetch', { url: url('/'), fresh: true })).text).toContain('rebinding.example is 127.0.0.2');
  asked = 0;
  expect((await use('web_fetch', { url: url('/on') })).text).toContain('rebinding.example is 127.0.0.2');
  expect(inside.asked).toEqual([]);
});

test('a name with one private address among its public ones is refused', async () => {
  const inside = await server({ '/': respondWith('inside', 'text/plain') });
  const resolve = async () => [
    { address: '1.1.1.1', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ];
  const { ok, text } = await fetchSetup({ network: {}, resolve }).use('web_fetch', {
    url: `http://mixed.example:${inside.port}/`,
  });
  expect(ok).toBe(false);
  expect(text).toContain('mixed.example is 127.0.0.1');
});

test.each([
  ['its address', '127.0.0.1', true],
  ['its range', '127.0.0.0/8', true],
  ['its name', 'Intern.Example', true],
  ['another range', '10.0.0.0/8', false],
  ['another name', 'example', false],
])('a private host is reached where the settings name %s', async (_, entry, reached) => {
  const { port } = await server({ '/': respondWith('intern', 'text/plain') });
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const { use } = fetchSetup({ network: { allow_private: [entry] }, resolve });
  expect((await use('web_fetch', { url: `http://intern.example:${port}/` })).ok).toBe(reached);
});

test('a redirect to another host is followed only if that host needs no approval', async () => {
  const other = await server({ '/': respondWith('the other', 'text/plain') });
  const front = await server({ '/': sendsOn(other.url('/')) });
  const asks = { mode: 'ask', workspace: [] } as const;
  const reported = await fetchSetup({ permissions: { ...asks, session: [] } }).use('web_fetch', {
    url: front.url('/'),
  });
  expect(reported).toMatchObject({ ok: false, text: expect.stringContaining('which nobody was asked about') });
  expect(other.asked).toEqual([]);
  const session = [{ allow: `web_fetch(${other.url('/*')})` }];
  const followed = await fetchSetup({ permissions: { ...asks, session } }).use('web_fetch', { url: front.url('/') });
  expect(followed.text).toContain('the other');
});

test('a redirect on the same host, from an allowed path to a denied one or to one that a rule asks about, is not followed', async () => {
  const front = await server({
    '/open': sendsOn('/private/x'),
    '/private/x': respondWith('secret', 'text/plain'),
    '/free': sendsOn('/open2'),
    '/open2': respondWith('the page', 'text/plain'),
  });
  for (const word of ['deny', 'ask'] as const) {
    const session = [{ [word]: `web_fetch(${front.url('/private/*')})` }];
    const setup = fetchSetup({ permissions: { mode: 'ask', session, workspace: [] } });
    const reported = await setup.use('web_fetch', { url: front.url('/open') });
    expect(reported).toMatchObject({ ok: false, text: expect.stringContaining(front.url('/private/x')) });
    expect((await setup.use('web_fetch', { url: front.url('/free') })).text).toContain('the page');
  }
  expect(front.asked).not.toContain('/private/x');
});

test('a cached page is not shown again once a rule denies a redirect on its way', async () => {
  const front = await server({ '/': sendsOn('/new'), '/new': respondWith('the page', 'text/plain') });
  const permissions: Permissions = { mode: 'auto', session: [], workspace: [] };
  const { use } = fetchSetup({ permissions });
  expect((await use('web_fetch', { url: front.url('/') })).text).toContain('the page');
  permissions.session = [{ deny: `web_fetch(${front.url('/new')})` }];
  expect(await use('web_fetch', { url: front.url('/') })).toMatchObject({
    ok: false,
    text: expect.stringContaining('is denied'),
  });
});

test('a file saved by a fetch is subject to the rules for files', async () => {
  const { box, root } = fetchSetup({
    permissions: { mode: 'auto', session: [{ deny: 'write_file(secret/*)' }], workspace: [] },
  });
  const permit = (save_as: string) =>
    box.checkPermission(
      { name: 'web_fetch', args: JSON.stringify({ url: 'https://example.org/', save_as }) },
      { work: async () => root, signal: new AbortController().signal },
    );
  expect(await permit('./secret/a')).toMatchObject({ is: 'deny' });
  expect(await permit('open/a')).toEqual({ is: 'allow' });
});

test('a call that was stopped before its host was refused leaves no error that nobody awaits', async () => {
  const unheard: unknown[] = [];
  const onUnheard = (error: unknown) => unheard.push(error);
  process.on('unhandledRejection', onUnheard);
  const stop = new AbortController();
  stop.abort(new Error('stopped'));
  const call = requestChecked(new URL('http://localhost/'), {
    may: { host: () => false, address: () => false },
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    maxBytes: 1000,
    signal: stop.signal,
  });
  await expect(call).rejects.toThrow('stopped');
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off('unhandledRejection', onUnheard);
  expect(unheard).toEqual([]);
});
