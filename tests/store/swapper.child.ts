import * as fs from 'node:fs';

// Puts a link to another folder in a folder's place and takes it away again, until it is told to end; then says how often.
const [path = '', evil = ''] = process.argv.slice(2);
let swaps = 0;
process.once('message', () => process.send?.(swaps, () => process.exit(0)));
process.send?.('ready');
function swap(): void {
  for (let n = 0; n < 20; n++) {
    fs.renameSync(path, `${path}.away`);
    try {
      fs.symlinkSync(evil, path);
      fs.unlinkSync(path);
      swaps++;
    } catch {
      // The daemon made the folder again in between.
    }
    back(n);
  }
  setImmediate(swap);
}
function back(n: number): void {
  try {
    fs.renameSync(`${path}.away`, path);
  } catch {
    // With something in it: that goes out of the way.
    fs.renameSync(path, `${path}.made-${swaps}-${n}`);
    back(n);
  }
}
swap();
