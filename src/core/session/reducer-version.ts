// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.
export const REDUCER_VERSION = '606ad598d168f92a';
