// A floor: the simplest chat. Each line of input is sent to the model, and its answer is printed as it streams.
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';

const [url = ''] = process.argv.slice(1);
const agent = new Agent({ keepAlive: true });

createInterface({ input: process.stdin, terminal: false }).on('line', (content) => {
  const sent = request(`${url}/chat/completions`, { method: 'POST', agent }, (answer) => {
    let rest = '';
    answer.setEncoding('utf8').on('data', (came: string) => {
      const lines = (rest + came).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (!line.startsWith('data: {')) continue;
        process.stdout.write(JSON.parse(line.slice('data: '.length)).choices[0].delta.content ?? '');
      }
    });
    answer.on('end', () => process.stdout.write('\n'));
  });
  sent.end(JSON.stringify({ model: 'bench', stream: true, messages: [{ role: 'user', content }] }));
});
console.log('READY');
