// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.
export const REDUCER_VERSION = 'ce749d2832c6bf9b';
