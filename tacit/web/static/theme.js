"use strict";(()=>{try{let t=localStorage.getItem("tacit-theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t)}catch{}})();
