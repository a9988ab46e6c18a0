import * as fs from 'node:fs';

// Keeps replacing a folder by a link to another one and back until it is told to end; then reports how often.
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
      // The daemon recreated the folder in between.
    }
    back(n);
  }
  setImmediate(swap);
}
function back(n: number): void {
  try {
    fs.renameSync(`${path}.away`, path);
  } catch {
    // It is not empty, so it is moved out of the way.
    fs.renameSync(path, `${path}.made-${swaps}-${n}`);
    back(n);
  }
}
swap();
