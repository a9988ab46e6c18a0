import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { script, setup } from '../support/agentctl.ts';
import { serveHere, serveWorkspace } from './serving.ts';

const BYTES = { 'content-type': 'application/octet-stream' };

test('an upload is attached once to the message that names it, and is read back unchanged as a file of work/', async () => {
  const place = setup();
  const { ask } = await serveHere(place);
  const content = Buffer.from(Array.from({ length: 70_000 }, (_, n) => n % 251));
  const upload = () =>
    ask('POST', '/api/sessions/demo/uploads?name=May%20report.bin', { raw: content, headers: BYTES });
  const first = await upload();
  expect(first).toMatchObject({
    status: 201,
    json: { session: 'demo', attachment: '.files/May report.bin', bytes: 70_000 },
  });
  expect((await upload()).json).toMatchObject({ attachment: '.files/May report-2.bin' });
  const message = { text: 'Look at it', attachments: [first.json['attachment']] };
  const send = () =>
    ask('POST', '/api/sessions/demo/messages', { body: message, headers: { 'idempotency-key': 'with-file' } });
  expect((await send()).status).toBe(202);
  await place.serveHere('--model', script(place, [{ text: 'Seen.' }]));
  const reply = await ask('GET', '/api/sessions/demo/replies/with-file.msg.json?wait=30');
  expect(reply.json).toMatchObject({ text: 'Seen.' });
  // The file has left the inbox by now, but the message is still recognized.
  expect((await send()).json).toMatchObject({ id: 'with-file' });

  const listed = await ask('GET', '/api/sessions/demo/files?folder=uploads');
  expect(listed.json).toMatchObject({
    folder: 'uploads',
    complete: true,
    entries: [{ name: 'May report.bin', path: 'uploads/May report.bin', type: 'file', bytes: 70_000 }],
  });
  const path = '/api/sessions/demo/files/uploads/May%20report.bin';
  const file = await ask('GET', path);
  expect(file.bytes.equals(content)).toBe(true);
  expect(file.headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': "attachment; filename*=UTF-8''May%20report.bin",
    'content-length': '70000',
    'x-content-type-options': 'nosniff',
  });
  expect((await ask('GET', path.replace('uploads/', 'uploads%2F'))).bytes.equals(content)).toBe(true);
});

test('only regular files of work/ are read, never through a link, and no file stays open', async () => {
  const place = setup();
  await place.here(['send', 'demo', 'hello']);
  const { ask, child } = await serveWorkspace(place);
  expect((await ask('GET', '/api/sessions/demo/files')).json).toEqual({ folder: '', entries: [], complete: true });
  const work = place.path('.sessions', 'demo', 'work');
  fs.mkdirSync(`${work}/many`, { recursive: true });
  fs.writeFileSync(`${work}/page.html`, '<script>alert(1)</script>');
  fs.writeFileSync(`${work}/empty`, '');
  fs.symlinkSync('../session.json', `${work}/settings`);
  fs.symlinkSync('..', `${work}/up`);
  fs.writeFileSync(place.path('.sessions', 'demo', 'session.json'), '{}');
  for (let n = 0; n < 1001; n++) fs.writeFileSync(`${work}/many/${n}`, '');
  fs.writeFileSync(`${work}/many/0`, Buffer.alloc(1_000_000));
  const listed = await ask('GET', '/api/sessions/demo/files');
  expect(listed.json['entries']).toMatchObject([
    { name: 'empty', type: 'file', bytes: 0 },
    { name: 'many', type: 'folder', bytes: null },
    { name: 'page.html', type: 'file', bytes: 25 },
    { name: 'settings', type: 'link' },
    { name: 'up', type: 'link' },
  ]);
  const many = (await ask('GET', '/api/sessions/demo/files?folder=many')).json;
  expect([many['complete'], (many['entries'] as object[]).length]).toEqual([false, 1000]);
  expect(await ask('GET', '/api/sessions/demo/files/empty')).toMatchObject({ status: 200, text: '' });
  fs.writeFileSync(`${work}/many/two\nlines`, 'both');
  expect(await ask('GET', '/api/sessions/demo/files/many/two%0Alines')).toMatchObject({ status: 200, text: 'both' });

  const refused = ['settings', 'up/session.json', 'many', 'nothing', 'up', '..%2Fsession.json', 'many%2F..%2Fempty'];
  for (const path of refused)
    expect([path, (await ask('GET', `/api/sessions/demo/files/${path}`)).status]).toEqual([path, 404]);
  for (const folder of ['up', 'empty', '..', 'nothing'])
    expect([folder, (await ask('GET', `/api/sessions/demo/files?folder=${folder}`)).status]).toEqual([folder, 404]);
  expect((await ask('GET', '/api/sessions/demo/files?folder=%2Fetc')).status).toBe(400);
  expect((await ask('GET', '/api/sessions/nobody/files')).status).toBe(404);

  for (let n = 0; n < 20; n++) expect((await ask('HEAD', '/api/sessions/demo/files/many/0')).status).toBe(200);
  // A file is closed shortly after its answer.
  await expect
    .poll(() => openFiles(child.pid).filter((path) => path.startsWith(work)), { timeout: 10_000 })
    .toEqual([]);
});

const openFiles = (pid: number | undefined): string[] =>
  fs.readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));

/** A descriptor may be closed meanwhile. */
function linkOf(path: string): string {
  try {
    return fs.readlinkSync(path);
  } catch {
    return '';
  }
}

test('an upload that is too large, not bytes, or without a plain name is refused and leaves nothing behind', async () => {
  const place = setup();
  const { ask } = await serveHere(place);
  const path = '/api/sessions/demo/uploads?name=x.bin';
  const large = await ask('POST', path, { raw: Buffer.alloc(100 * 1024 * 1024 + 1), headers: BYTES }).catch(
    (error: Error) => error,
  );
  // The server may close the connection before everything has been sent.
  if (!(large instanceof Error)) expect(large).toMatchObject({ status: 413, json: { wanted: 'a smaller file' } });
  expect(fs.readdirSync(place.path('.sessions', 'demo', 'inbox', '.files'))).toEqual([]);
  expect(fs.readdirSync(place.path('.sessions', 'demo', 'inbox', '.tmp'))).toEqual([]);
  expect((await ask('POST', path, { raw: 'x' })).status).toBe(415);
  expect((await ask('POST', path, { raw: 'x', headers: { 'content-type': 'multipart/form-data' } })).status).toBe(415);
  for (const name of ['', '..%2Fx', '.hidden', 'a%2Fb'])
    expect((await ask('POST', `/api/sessions/demo/uploads?name=${name}`, { raw: 'x', headers: BYTES })).status).toBe(
      400,
    );
  const body = { text: 'Look', attachments: ['.files/nothing'] };
  const missing = await ask('POST', '/api/sessions/demo/messages', { body });
  expect(missing).toMatchObject({ status: 422, json: { came: expect.stringContaining('Upload the file first') } });
  const outside = { text: 'Look', attachments: ['.files/../../x'] };
  expect((await ask('POST', '/api/sessions/demo/messages', { body: outside })).status).toBe(400);
});
