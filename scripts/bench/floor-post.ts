// A floor: a bare HTTP server. It writes the body to a file, syncs it, links it into the folder, and syncs that too.
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';

const [inbox = '.'] = process.argv.slice(1);
const [fdatasync, fsync] = [promisify(fs.fdatasync), promisify(fs.fsync)];

async function put(name: string, body: string): Promise<void> {
  const staged = join(inbox, '.tmp', name);
  const file = fs.openSync(staged, 'wx');
  fs.writeSync(file, JSON.stringify(JSON.parse(body)));
  await fdatasync(file);
  fs.closeSync(file);
  fs.linkSync(staged, join(inbox, `${name}.msg.json`));
  // The daemon may have removed this name already.
  fs.rmSync(staged, { force: true });
  const folder = fs.openSync(inbox, 'r');
  await fsync(folder);
  fs.closeSync(folder);
}

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (piece: string) => {
    body += piece;
  });
  request.on('end', async () => {
    await put(String(request.headers['idempotency-key']), body);
    response.writeHead(202, { 'content-type': 'application/json' }).end('{}\n');
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(`SERVING http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`);
});
