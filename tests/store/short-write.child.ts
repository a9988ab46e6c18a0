import { errorText } from '../../src/base/user-error.ts';
import { replaceFile } from '../../src/store/index.ts';

// Replaces a file by one larger than this process may write, so that the first write is short.
// Without a handler the signal would end us before the error is reported.
process.on('SIGXFSZ', () => {});
try {
  await replaceFile(process.argv[2] ?? '', 'x'.repeat(300_000));
  console.log('replaced');
} catch (error) {
  console.log(errorText(error));
}
