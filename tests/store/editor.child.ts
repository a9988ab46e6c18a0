import * as fs from 'node:fs';
import { dirname } from 'node:path';

// An editor: opens the plan, adds a line with the next token and saves it, `saves` times, every 0-6 ms. `how`: by
// rename or in place.
const [path = '', how = '', saves = '0'] = process.argv.slice(2);
const pause = () => new Promise((done) => setTimeout(done, Math.random() * 6));

function content(): string {
  for (;;) {
    try {
      return fs.readFileSync(path, 'utf8');
    } catch {
      // The name is missing for some microseconds while the daemon replaces the file; the folder, once the test is over.
      if (!fs.existsSync(dirname(path))) process.exit(1);
    }
  }
}

for (let n = 0; n < Number(saves); n++) {
  const text = `${content()}${how}-${n}\n`;
  if (how === 'rename') {
    fs.writeFileSync(`${path}.editor`, text);
    fs.renameSync(`${path}.editor`, path);
  } else {
    fs.writeFileSync(path, text);
  }
  await pause();
}
